"""Validation of priorities."""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api.accessors import name_of
from kapiserver.api.errors import FieldError, Path, forbidden, not_supported_in_order, required
from kapiserver.api.metadata_validation import immutable
from kapiserver.api.types import Tree

_SYSTEM = "system-"
USER_MAX = 1_000_000_000
SYSTEM_CLASSES = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
PREEMPTION = ("Never", "PreemptLowerPriority")
_SHOWN = ("PreemptLowerPriority", "Never")  # the order in which messages list them


def validate_priority_class(obj: Tree) -> Iterator[FieldError]:
    """Validate a new class."""
    name, value = name_of(obj), obj.get("value") or 0
    if name.startswith(_SYSTEM):
        wrong = _unlike_system(name, value, default=bool(obj.get("globalDefault")))
        if wrong:
            detail = (
                f"priority class names with '{_SYSTEM}' prefix are reserved for system use only. "
                f"error: {wrong}"
            )
            yield forbidden(Path("metadata") / "name", detail)
    elif value > USER_MAX:
        detail = f"maximum allowed value of a user defined priority is {USER_MAX}"
        yield forbidden(Path("value"), detail)
    policy, preemption_policy_path = obj.get("preemptionPolicy"), Path("preemptionPolicy")
    if policy == "":
        yield required(preemption_policy_path)
    elif policy is not None and policy not in PREEMPTION:
        yield not_supported_in_order(preemption_policy_path, policy, _SHOWN)


def _unlike_system(name: str, value: int, *, default: bool) -> str:
    wanted = SYSTEM_CLASSES.get(name)
    if wanted is None:
        return f"{name} is not a known system priority class"
    if value != wanted:
        return f"value of {name} PriorityClass must be {wanted}"
    if default:
        return f"globalDefault of {name} PriorityClass must be false"
    return ""


def validate_priority_class_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """A class that is to be changed: pods have its priority already."""
    if (new.get("value") or 0) != (old.get("value") or 0):
        yield forbidden(Path("value"), "may not be changed in an update.")
    name = "preemptionPolicy"
    yield from immutable(new.get(name), old.get(name), Path(name))
