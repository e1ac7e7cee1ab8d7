"""Validation of device taint rules and pool status requests."""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api.accessors import value_at
from kapiserver.api.core.validation.conditions import validate_conditions
from kapiserver.api.core.validation.volume_plugins import validate_driver_name
from kapiserver.api.errors import FieldError, Path, too_many
from kapiserver.api.metadata_validation import immutable
from kapiserver.api.resource.validation.common import (
    validate_label,
    validate_pool_name,
    validate_taint,
)
from kapiserver.api.types import Tree

_SPEC = Path("spec")
_STATUS = Path("status")
_CONDITIONS_MAX = 8


def validate_taint_rule(obj: Tree) -> Iterator[FieldError]:
    """Validate a new rule that puts a taint on devices."""
    return validate_taint_rule_update(obj, {})


def validate_taint_rule_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Validate an updated taint rule. An unchanged effect need not be valid."""
    spec = new.get("spec") or {}
    selector, device_selector_path = spec.get("deviceSelector") or {}, _SPEC / "deviceSelector"
    if selector.get("driver") is not None:
        yield from validate_driver_name(selector["driver"], device_selector_path / "driver")
    if selector.get("pool") is not None:
        yield from validate_pool_name(selector["pool"], device_selector_path / "pool")
    if selector.get("device") is not None:
        yield from validate_label(selector, "device", device_selector_path)
    old_effect = value_at(old, "spec", "taint", "effect")
    yield from validate_taint(spec.get("taint") or {}, _SPEC / "taint", old_effect=old_effect)


def validate_rule_status_update(new: Tree, _: Tree) -> Iterator[FieldError]:
    """Validate the status of a taint rule."""
    conditions = value_at(new, "status", "conditions") or ()
    conditions_path = _STATUS / "conditions"
    yield from validate_conditions(conditions, conditions_path)
    if len(conditions) > _CONDITIONS_MAX:
        yield too_many(conditions_path, len(conditions), _CONDITIONS_MAX)


def validate_request_status_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Validate the status of a pool status request, which is immutable once it is set."""
    status, old_status = new.get("status"), old.get("status")
    if old_status is not None:
        yield from immutable(status, old_status, _STATUS)
    elif status is not None:
        yield from validate_conditions(status.get("conditions"), _STATUS / "conditions")
