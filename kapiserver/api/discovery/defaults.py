"""Defaulting of the discovery group.

Mirrors pkg/apis/discovery/v1/defaults.go.
"""

from __future__ import annotations

from kapiserver.api.defaulting import DefaultFunction, fill_missing
from kapiserver.api.discovery import v1
from kapiserver.api.types import Tree, Type


def _default_port(port: Tree) -> None:
    fill_missing(port, name="", protocol="TCP")


DEFAULTS: dict[type[Type], DefaultFunction] = {v1.EndpointPort: _default_port}
