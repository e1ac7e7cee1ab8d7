"""Validation of eviction requests and of evictions, beside declarative validation.

Mirrors pkg/apis/lifecycle/validation.
"""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api.accessors import value_at
from kapiserver.api.core.validation.conditions import validate_conditions
from kapiserver.api.errors import FieldError, Path, invalid
from kapiserver.api.types import Tree

_STATUS = Path("status")
_FINAL = ("TargetEvicted", "Failed")


def validate_request_status_update(new: Tree, _: Tree) -> Iterator[FieldError]:
    """What is known of a request."""
    yield from validate_conditions(value_at(new, "status", "conditions"), _STATUS / "conditions")


def validate_eviction_status_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Who asked, who answers: nobody is forgotten, and an end is an end."""
    yield from validate_request_status_update(new, old)
    conditions = value_at(new, "status", "conditions") or []
    for condition in value_at(old, "status", "conditions") or ():
        ended = condition.get("type") in _FINAL and condition.get("status") == "True"
        if ended and condition not in conditions:
            detail = f"{condition['type']} condition status cannot be reverted"
            yield invalid(_STATUS / "conditions", conditions, detail)
    responders, before = (value_at(one, "status", "targetResponders") or [] for one in (new, old))
    if before and [responder.get("name") for responder in responders] != [
        one.get("name") for one in before
    ]:
        what = "keys" if len(responders) == len(before) else "length and the same keys"
        detail = f"must preserve the same {what} in the same order"
        yield invalid(_STATUS / "targetResponders", responders, detail)
