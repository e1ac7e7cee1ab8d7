"""Rules that the kinds which keep pods running share, of any group: templates, counts, amounts.

Mirrors parts of pkg/apis/core/validation and pkg/apis/apps/validation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kapiserver.api import names
from kapiserver.api.core.validation.common import validate_nonnegative_field
from kapiserver.api.core.validation.pods import validate_pod_template
from kapiserver.api.errors import FieldError, Path, forbidden, invalid, not_supported
from kapiserver.api.objects import labels_of
from kapiserver.api.types import Tree

STATUS = Path("status")
_DIGITS = 9
"""As many digits of a percentage as matter: more are over any bound."""


def validate_controller_template(
    template: Tree, path: Path, *, selects: bool, owner: str
) -> Iterator[FieldError]:
    """The template of a controller that keeps pods running, and which its selector must select;
    `owner` is the controller's kind as messages name it."""
    if not selects:
        yield selector_mismatch(template, path)
    yield from validate_pod_template(template, path)
    yield from validate_long_running_pod(template, path, owner=owner)


def selector_mismatch(template: Tree, path: Path) -> FieldError:
    """A selector that does not select the pods of the template at `path`."""
    detail = "`selector` does not match template `labels`"
    return invalid(path / "metadata" / "labels", dict(labels_of(template)) or None, detail)


def validate_long_running_pod(template: Tree, path: Path, *, owner: str) -> Iterator[FieldError]:
    """Pods that are kept running are always restarted and have no deadline."""
    spec = template.get("spec") or {}
    policy = spec.get("restartPolicy") or ""
    if policy != "Always":
        yield not_supported(path / "spec" / "restartPolicy", policy, ("Always",))
    if spec.get("activeDeadlineSeconds") is not None:
        detail = f"activeDeadlineSeconds in {owner} is not Supported"
        yield forbidden(path / "spec" / "activeDeadlineSeconds", detail)


def validate_nonnegative_counts(status: Tree, fields: Sequence[str]) -> Iterator[FieldError]:
    """Numbers of a status that are not negative."""
    for name in fields:
        yield from validate_nonnegative_field(status, name, STATUS)


def validate_count_limits(
    status: Tree, pairs: Sequence[tuple[str, str]], *, shown: str = ""
) -> Iterator[FieldError]:
    """Numbers of a status that cannot be greater than others: (small, big). Messages name the
    big one `status.replicas`, others with `shown` before them."""
    for small, big in pairs:
        value = status.get(small) or 0
        if value > (status.get(big) or 0):
            other = "status.replicas" if big == "replicas" else f"{shown}{big}"
            yield invalid(STATUS / small, value, f"cannot be greater than {other}")


def validate_not_decremented(status: Tree, old_status: Tree, name: str) -> Iterator[FieldError]:
    """A number of a status that never goes down."""
    count, was = status.get(name), old_status.get(name)
    if was is not None and (count is None or count < was):
        yield invalid(STATUS / name, count or 0, "cannot be decremented")


_REPLICA_COUNTS = (
    "replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration",
    "terminatingReplicas",
)  # fmt: skip


def validate_replica_status(new: Tree, _: Tree) -> Iterator[FieldError]:
    """What the controller of replica sets, or of their elders, reports."""
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
    """A number that is not negative, or a percentage."""
    if isinstance(value, str):
        for message in names.percent(value):
            yield invalid(path, value, message)
    elif value < 0:
        yield invalid(path, value, "must be greater than or equal to 0")


def validate_percent_at_most_100(value: Any, path: Path) -> Iterator[FieldError]:
    """A percentage of no more than 100, where it is one."""
    if isinstance(value, str) and not names.percent(value) and _percent(value) > 100:
        yield invalid(path, value, "must not be greater than 100%")


def is_zero(value: Any) -> bool:
    """Whether a number or percentage is zero, as a text that is neither is."""
    if not isinstance(value, str):
        return not value
    return not value.strip("+-0%") or (bool(names.percent(value)) and not value.isdecimal())


def _percent(text: str) -> int:
    return int(text[:-1].lstrip("0")[:_DIGITS] or "0")
