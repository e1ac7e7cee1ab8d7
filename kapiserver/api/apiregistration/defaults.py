"""Defaulting of the apiregistration group."""

from __future__ import annotations

from kapiserver.api.apiregistration import v1
from kapiserver.api.defaulting import DefaultFunction
from kapiserver.api.types import Tree, Type


def _default_service(reference: Tree) -> None:
    if reference.get("port") is None:
        reference["port"] = 443


DEFAULTS: dict[type[Type], DefaultFunction] = {v1.ServiceReference: _default_service}
