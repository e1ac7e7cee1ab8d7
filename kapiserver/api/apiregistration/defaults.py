"""What the apiregistration group fills in."""

from __future__ import annotations

from kapiserver.api.apiregistration import v1
from kapiserver.api.defaulting import DefaultFunction
from kapiserver.api.types import Tree, Type


def _service(reference: Tree) -> None:
    if reference.get("port") is None:
        reference["port"] = 443


DEFAULTS: dict[type[Type], DefaultFunction] = {v1.ServiceReference: _service}
