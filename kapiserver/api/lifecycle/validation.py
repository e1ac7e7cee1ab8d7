"""Validation of eviction requests and of evictions, besides declarative validation.

Mirrors pkg/apis/lifecycle/validation.
"""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api.accessors import value_at
from kapiserver.api.core.validation.conditions import validate_conditions
from kapiserver.api.errors import FieldError, Path, invalid
from kapiserver.api.types import Tree

_STATUS = Path("status")
_FINAL_CONDITIONS = ("TargetEvicted", "Failed")


def validate_request_status_update(new: Tree, _: Tree) -> Iterator[FieldError]:
    """Validate the status of an eviction request."""
    yield from validate_conditions(value_at(new, "status", "conditions"), _STATUS / "conditions")


def validate_eviction_status_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Validate the status of an eviction. Responders cannot be removed, and final conditions cannot
    be reverted."""
    yield from validate_request_status_update(new, old)
    conditions = value_at(new, "status", "conditions") or []
    for condition in value_at(old, "status", "conditions") or ():
        is_final = condition.get("type") in _FINAL_CONDITIONS and condition.get("status") == "True"
        if is_final and condition not in conditions:
            detail = f"{condition['type']} condition status cannot be reverted"
            yield invalid(_STATUS / "conditions", conditions, detail)
    responders, old_responders = (
        value_at(obj, "status", "targetResponders") or [] for obj in (new, old)
    )
    if old_responders and [responder.get("name") for responder in responders] != [
        responder.get("name") for responder in old_responders
    ]:
        noun = "keys" if len(responders) == len(old_responders) else "length and the same keys"
        detail = f"must preserve the same {noun} in the same order"
        yield invalid(_STATUS / "targetResponders", responders, detail)
