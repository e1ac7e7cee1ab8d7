"""Validation of deployments."""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api.apps.validation.replica_sets import validate_selector_and_template
from kapiserver.api.core.validation.common import validate_nonnegative_field
from kapiserver.api.core.validation.controllers import (
    is_zero,
    validate_count_limits,
    validate_int_or_percent,
    validate_nonnegative_counts,
    validate_not_decremented,
    validate_percent_at_most_100,
)
from kapiserver.api.errors import (
    FieldError,
    Path,
    forbidden,
    invalid,
    not_supported_in_order,
    required,
)
from kapiserver.api.metadata_validation import immutable
from kapiserver.api.types import Tree

_SPEC = Path("spec")


def validate_deployment(obj: Tree) -> Iterator[FieldError]:
    """Validate a new or updated deployment."""
    spec = obj.get("spec") or {}
    yield from validate_nonnegative_field(spec, "replicas", _SPEC)
    yield from validate_selector_and_template(spec)
    yield from _validate_strategy(spec.get("strategy") or {}, _SPEC / "strategy")
    for name in ("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"):
        yield from validate_nonnegative_field(spec, name, _SPEC)
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= (spec.get("minReadySeconds") or 0):
        detail = "must be greater than minReadySeconds"
        yield invalid(_SPEC / "progressDeadlineSeconds", deadline, detail)


def _validate_strategy(strategy: Tree, path: Path) -> Iterator[FieldError]:
    type_, rolling = strategy.get("type") or "", strategy.get("rollingUpdate")
    if type_ == "Recreate":
        if rolling is not None:
            detail = "may not be specified when strategy `type` is 'Recreate'"
            yield forbidden(path / "rollingUpdate", detail)
    elif type_ == "RollingUpdate":
        if rolling is None:
            detail = "this should be defaulted and never be nil"
            yield required(path / "rollingUpdate", detail)
        else:
            yield from _validate_rolling(rolling, path / "rollingUpdate")
    else:
        # The internal Go struct, whose JSON form has the names of Go's fields.
        rolling_value = rolling and {
            "MaxUnavailable": rolling.get("maxUnavailable") or 0,
            "MaxSurge": rolling.get("maxSurge") or 0,
        }
        strategies = ("Recreate", "RollingUpdate")
        yield not_supported_in_order(
            path, {"Type": type_, "RollingUpdate": rolling_value}, strategies
        )


def _validate_rolling(rolling: Tree, path: Path) -> Iterator[FieldError]:
    max_unavailable, max_surge = rolling.get("maxUnavailable") or 0, rolling.get("maxSurge") or 0
    yield from validate_int_or_percent(max_unavailable, path / "maxUnavailable")
    yield from validate_int_or_percent(max_surge, path / "maxSurge")
    if is_zero(max_unavailable) and is_zero(max_surge):
        detail = "may not be 0 when `maxSurge` is 0"
        yield invalid(path / "maxUnavailable", max_unavailable, detail)
    yield from validate_percent_at_most_100(max_unavailable, path / "maxUnavailable")


def validate_deployment_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Validate an updated deployment. Its selector is immutable."""
    yield from validate_deployment(new)
    selector = (new.get("spec") or {}).get("selector")
    old_selector = (old.get("spec") or {}).get("selector")
    yield from immutable(selector, old_selector, _SPEC / "selector")


_COUNTS = (
    "observedGeneration", "replicas", "updatedReplicas", "readyReplicas", "availableReplicas",
    "unavailableReplicas", "terminatingReplicas", "collisionCount",
)  # fmt: skip


def validate_deployment_status_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Validate the status of a deployment."""
    status, old_status = new.get("status") or {}, old.get("status") or {}
    yield from validate_nonnegative_counts(status, _COUNTS)
    yield from validate_count_limits(
        status,
        (
            ("updatedReplicas", "replicas"),
            ("readyReplicas", "replicas"),
            ("availableReplicas", "replicas"),
            ("availableReplicas", "readyReplicas"),
        ),
    )
    yield from validate_not_decremented(status, old_status, "collisionCount")
