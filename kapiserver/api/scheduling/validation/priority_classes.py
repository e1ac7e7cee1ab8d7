"""Validation of priority classes."""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api.accessors import name_of
from kapiserver.api.errors import FieldError, Path, forbidden, not_supported_in_order, required
from kapiserver.api.metadata_validation import immutable
from kapiserver.api.types import Tree

_SYSTEM_PREFIX = "system-"
USER_MAX = 1_000_000_000
SYSTEM_CLASSES = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
PREEMPTION_POLICIES = ("Never", "PreemptLowerPriority")
_POLICIES_IN_MESSAGES = (
    "PreemptLowerPriority",
    "Never",
)  # in the order of kube-apiserver's messages


def validate_priority_class(obj: Tree) -> Iterator[FieldError]:
    """Validate a new class."""
    name, value = name_of(obj), obj.get("value") or 0
    if name.startswith(_SYSTEM_PREFIX):
        problem = _system_class_problem(name, value, is_default=bool(obj.get("globalDefault")))
        if problem:
            detail = (
                f"priority class names with '{_SYSTEM_PREFIX}' prefix are reserved for system use "
                f"only. error: {problem}"
            )
            yield forbidden(Path("metadata") / "name", detail)
    elif value > USER_MAX:
        detail = f"maximum allowed value of a user defined priority is {USER_MAX}"
        yield forbidden(Path("value"), detail)
    preemption_policy = obj.get("preemptionPolicy")
    preemption_policy_path = Path("preemptionPolicy")
    if preemption_policy == "":
        yield required(preemption_policy_path)
    elif preemption_policy is not None and preemption_policy not in PREEMPTION_POLICIES:
        yield not_supported_in_order(
            preemption_policy_path, preemption_policy, _POLICIES_IN_MESSAGES
        )


def _system_class_problem(name: str, value: int, *, is_default: bool) -> str:
    system_value = SYSTEM_CLASSES.get(name)
    if system_value is None:
        return f"{name} is not a known system priority class"
    if value != system_value:
        return f"value of {name} PriorityClass must be {system_value}"
    if is_default:
        return f"globalDefault of {name} PriorityClass must be false"
    return ""


def validate_priority_class_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Validate an updated priority class. Its value and its preemption policy are immutable."""
    if (new.get("value") or 0) != (old.get("value") or 0):
        yield forbidden(Path("value"), "may not be changed in an update.")
    field_name = "preemptionPolicy"
    yield from immutable(new.get(field_name), old.get(field_name), Path(field_name))
