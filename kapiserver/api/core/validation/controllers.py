"""Validation that workload controllers of any group share: pod templates, status counts,
percentages.

Mirrors parts of pkg/apis/core/validation and pkg/apis/apps/validation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kapiserver.api import names
from kapiserver.api.accessors import value_at
from kapiserver.api.core.validation.common import validate_nonnegative_field
from kapiserver.api.core.validation.pods import validate_pod_template
from kapiserver.api.errors import FieldError, Path, forbidden, invalid, not_supported
from kapiserver.api.types import Tree

STATUS = Path("status")
_DIGITS = 9
"""The digits of a percentage that are parsed. A longer number exceeds every bound anyway."""


def validate_controller_template(
    template: Tree, path: Path, *, selects: bool, owner: str
) -> Iterator[FieldError]:
    """Validate the pod template of a controller whose pods run until they are deleted. `selects`
    tells whether the controller's selector matches the template's labels; `owner` is the
    controller's kind in messages."""
    if not selects:
        yield selector_mismatch(template, path)
    yield from validate_pod_template(template, path)
    yield from validate_long_running_pod(template, path, owner=owner)


def selector_mismatch(template: Tree, path: Path) -> FieldError:
    """Return the error for a selector that does not match the labels of the template at `path`."""
    detail = "`selector` does not match template `labels`"
    labels = value_at(template, "metadata", "labels")
    return invalid(path / "metadata" / "labels", labels, detail)


def validate_long_running_pod(template: Tree, path: Path, *, owner: str) -> Iterator[FieldError]:
    """Validate that a pod template has restartPolicy Always and no active deadline."""
    spec = template.get("spec") or {}
    policy = spec.get("restartPolicy") or ""
    if policy != "Always":
        yield not_supported(path / "spec" / "restartPolicy", policy, ("Always",))
    if spec.get("activeDeadlineSeconds") is not None:
        detail = f"activeDeadlineSeconds in {owner} is not Supported"
        yield forbidden(path / "spec" / "activeDeadlineSeconds", detail)


def validate_nonnegative_counts(status: Tree, fields: Sequence[str]) -> Iterator[FieldError]:
    """Validate that the numbers in these fields of a status are not negative."""
    for name in fields:
        yield from validate_nonnegative_field(status, name, STATUS)


def validate_count_limits(
    status: Tree, pairs: Sequence[tuple[str, str]], *, prefix: str = ""
) -> Iterator[FieldError]:
    """Validate that numbers of a status are not greater than others. `pairs` are (count, limit)
    field names. Messages call the limit `status.replicas`, or `prefix` and its name."""
    for count_name, limit_name in pairs:
        value = status.get(count_name) or 0
        if value > (status.get(limit_name) or 0):
            limit = "status.replicas" if limit_name == "replicas" else f"{prefix}{limit_name}"
            yield invalid(STATUS / count_name, value, f"cannot be greater than {limit}")


def validate_not_decremented(status: Tree, old_status: Tree, name: str) -> Iterator[FieldError]:
    """Validate that a number of a status does not decrease."""
    count, old_count = status.get(name), old_status.get(name)
    if old_count is not None and (count is None or count < old_count):
        yield invalid(STATUS / name, count or 0, "cannot be decremented")


_REPLICA_COUNTS = (
    "replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration",
    "terminatingReplicas",
)  # fmt: skip


def validate_replica_status(new: Tree, _: Tree) -> Iterator[FieldError]:
    """Validate the status of a replica set or of a replication controller."""
    status = new.get("status") or {}
    yield from validate_nonnegative_counts(status, _REPLICA_COUNTS)
    yield from validate_count_limits(
        status,
        (
            ("fullyLabeledReplicas", "replicas"),
            ("readyReplicas", "replicas"),
            ("availableReplicas", "replicas"),
            ("availableReplicas", "readyReplicas"),
        ),
    )


def validate_int_or_percent(value: Any, path: Path) -> Iterator[FieldError]:
    """Validate a non-negative number or a percentage."""
    if isinstance(value, str):
        for message in names.percent(value):
            yield invalid(path, value, message)
    elif value < 0:
        yield invalid(path, value, "must be greater than or equal to 0")


def validate_percent_at_most_100(value: Any, path: Path) -> Iterator[FieldError]:
    """Validate that a percentage is at most 100%. Other values are not checked here."""
    if isinstance(value, str) and not names.percent(value) and _percent(value) > 100:
        yield invalid(path, value, "must not be greater than 100%")


def is_zero(value: Any) -> bool:
    """Return whether a number or percentage is zero. A string that is neither counts as zero."""
    if not isinstance(value, str):
        return not value
    return not value.strip("+-0%") or (bool(names.percent(value)) and not value.isdecimal())


def _percent(text: str) -> int:
    return int(text[:-1].lstrip("0")[:_DIGITS] or "0")
