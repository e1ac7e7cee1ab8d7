"""Rules for leases. Mirrors pkg/apis/coordination/validation."""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api.core.validation.common import not_negative
from kapiserver.api.errors import FieldError, Path, invalid, required
from kapiserver.api.types import Tree

_SPEC = Path("spec")


def lease(obj: Tree) -> Iterator[FieldError]:
    """A lease, new or changed."""
    spec = obj.get("spec") or {}
    seconds = spec.get("leaseDurationSeconds")
    if seconds is not None and seconds <= 0:
        yield invalid(_SPEC / "leaseDurationSeconds", seconds, "must be greater than 0")
    yield from not_negative(spec, "leaseTransitions", _SPEC)
    if spec.get("strategy") == "":
        yield required(_SPEC / "strategy")
    if spec.get("preferredHolder") and not spec.get("strategy"):
        detail = "may only be specified if `strategy` is defined"
        yield invalid(_SPEC / "preferredHolder", spec["preferredHolder"], detail)
