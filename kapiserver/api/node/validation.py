"""Validation of runtime classes.

Mirrors pkg/apis/node/validation.
"""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api.core.v1 import Toleration
from kapiserver.api.core.validation.go_structs import as_go_struct
from kapiserver.api.core.validation.resources import validate_resource_requirements
from kapiserver.api.core.validation.scheduling import validate_tolerations
from kapiserver.api.errors import FieldError, Path, duplicate
from kapiserver.api.label_selectors import validate_labels
from kapiserver.api.types import Tree


def validate_runtime_class(obj: Tree) -> Iterator[FieldError]:
    """Validate a runtime class. The rules for its handler are declarative."""
    if obj.get("overhead") is not None:
        yield from validate_resource_requirements(
            {"limits": obj["overhead"].get("podFixed")}, Path("overhead")
        )
    scheduling, path = obj.get("scheduling"), Path("scheduling")
    if scheduling is None:
        return
    yield from validate_labels(scheduling.get("nodeSelector"), path / "nodeSelector")
    tolerations, tolerations_path = scheduling.get("tolerations") or [], path / "tolerations"
    yield from validate_tolerations(tolerations, tolerations_path)
    seen: set[tuple[str, ...]] = set()
    for index, toleration in enumerate(tolerations):
        key = tuple(toleration.get(name) or "" for name in ("key", "operator", "value", "effect"))
        if key in seen:
            yield duplicate(tolerations_path[index], as_go_struct(toleration, Toleration))
        seen.add(key)
