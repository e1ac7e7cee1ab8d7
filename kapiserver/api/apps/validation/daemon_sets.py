"""Validation of daemon sets."""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api.accessors import labels_of
from kapiserver.api.core.validation.common import validate_nonnegative_field
from kapiserver.api.core.validation.controllers import (
    is_zero,
    selector_mismatch,
    validate_int_or_percent,
    validate_long_running_pod,
    validate_nonnegative_counts,
    validate_not_decremented,
    validate_percent_at_most_100,
)
from kapiserver.api.core.validation.pods import validate_pod_template
from kapiserver.api.errors import (
    BadObject,
    FieldError,
    Path,
    invalid,
    not_supported_in_order,
    required,
)
from kapiserver.api.label_selectors import (
    selection_of,
    selects_everything,
    validate_label_selector,
)
from kapiserver.api.metadata_validation import immutable
from kapiserver.api.types import Tree

_SPEC = Path("spec")
_STRATEGIES = ("RollingUpdate", "OnDelete")
_COUNTS = (
    "currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady",
    "observedGeneration", "updatedNumberScheduled", "numberAvailable", "numberUnavailable",
    "collisionCount",
)  # fmt: skip


def validate_daemon_set(obj: Tree) -> Iterator[FieldError]:
    """Validate a new or updated daemon set."""
    spec = obj.get("spec") or {}
    selector, template = spec.get("selector"), spec.get("template") or {}
    yield from validate_label_selector(selector, _SPEC / "selector")
    if not _selects_template(selector, template):
        yield selector_mismatch(template, _SPEC / "template")
    if selector is not None and selects_everything(selector):
        yield invalid(_SPEC / "selector", selector, "empty selector is invalid for daemonset")
    yield from validate_pod_template(template, _SPEC / "template")
    yield from validate_long_running_pod(template, _SPEC / "template", owner="DaemonSet")
    yield from validate_nonnegative_field(spec, "minReadySeconds", _SPEC)
    yield from _validate_update_strategy(spec.get("updateStrategy") or {}, _SPEC / "updateStrategy")
    yield from validate_nonnegative_field(spec, "revisionHistoryLimit", _SPEC)


def _selects_template(selector: Tree | None, template: Tree) -> bool:
    try:
        selection = selection_of(selector)
    except BadObject:
        return True
    return selection is not None and selection.matches(labels_of(template), {})


def _validate_update_strategy(strategy: Tree, path: Path) -> Iterator[FieldError]:
    type_, rolling = strategy.get("type") or "", strategy.get("rollingUpdate")
    if type_ not in _STRATEGIES:
        # The internal Go struct, whose JSON form has the names of Go's fields.
        rolling_value = rolling and {
            "MaxUnavailable": rolling.get("maxUnavailable") or 0,
            "MaxSurge": rolling.get("maxSurge") or 0,
        }
        yield not_supported_in_order(
            path, {"Type": type_, "RollingUpdate": rolling_value}, _STRATEGIES
        )
    elif type_ == "RollingUpdate":
        if rolling is None:
            yield required(path / "rollingUpdate")
        else:
            yield from _validate_rolling(rolling, path / "rollingUpdate")


def _validate_rolling(rolling: Tree, path: Path) -> Iterator[FieldError]:
    amounts = {name: rolling.get(name) or 0 for name in ("maxUnavailable", "maxSurge")}
    for rule in (validate_int_or_percent, validate_percent_at_most_100):
        for name, amount in amounts.items():
            yield from rule(amount, path / name)
    has_max_unavailable, has_max_surge = (not is_zero(amount) for amount in amounts.values())
    if has_max_unavailable and has_max_surge:
        detail = "may not be set when maxUnavailable is non-zero"
        yield invalid(path / "maxSurge", amounts["maxSurge"], detail)
    elif not has_max_unavailable and not has_max_surge:
        yield required(path / "maxUnavailable", "cannot be 0 when maxSurge is 0")


def validate_daemon_set_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Validate an updated daemon set. Its selector is immutable."""
    selector = (new.get("spec") or {}).get("selector")
    old_selector = (old.get("spec") or {}).get("selector")
    yield from immutable(selector, old_selector, _SPEC / "selector")
    yield from validate_daemon_set(new)


def validate_daemon_set_status_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Validate the status of a daemon set."""
    status = new.get("status") or {}
    yield from validate_nonnegative_counts(status, _COUNTS)
    yield from validate_not_decremented(status, old.get("status") or {}, "collisionCount")
