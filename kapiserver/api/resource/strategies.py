"""Strategies of the resource group."""

from __future__ import annotations

from collections.abc import Iterable

from kapiserver.api.accessors import value_at
from kapiserver.api.errors import FieldError, Path
from kapiserver.api.resource.declarative_rules import (
    DEVICE_CLASS,
    DEVICE_TAINT_RULE,
    POOL_STATUS_REQUEST,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_SLICE,
)
from kapiserver.api.resource.disabled_fields import (
    drop_disabled_claim_fields,
    drop_disabled_slice_fields,
    drop_disabled_template_fields,
)
from kapiserver.api.resource.validation.allocations import device_id, validate_claim_status_update
from kapiserver.api.resource.validation.claims import (
    validate_claim,
    validate_claim_template,
    validate_device_class,
    validate_device_class_update,
    validate_template_update,
)
from kapiserver.api.resource.validation.slices import (
    validate_resource_slice,
    validate_resource_slice_update,
)
from kapiserver.api.resource.validation.taints import (
    validate_request_status_update,
    validate_rule_status_update,
    validate_taint_rule,
    validate_taint_rule_update,
)
from kapiserver.api.strategy import (
    STATUS_METADATA,
    GenerationStrategy,
    SpecStrategy,
    StatusStrategy,
    Strategy,
)
from kapiserver.api.types import Tree


def _config_warnings(config: Iterable[Tree], path: Path) -> list[str]:
    drivers = ((value_at(entry, "opaque", "driver") or "", path[index] / "opaque")
             for index, entry in enumerate(config))  # fmt: skip
    return [
        text
        for driver, opaque_path in drivers
        for text in _driver_warnings(driver, opaque_path / "driver")
    ]


def _driver_warnings(driver: str, path: Path) -> list[str]:
    if driver == driver.lower():
        return []
    advice = "driver names should be lowercase"
    return [f'{path}: {advice}; "{driver}" contains uppercase characters']


class DeviceClassStrategy(GenerationStrategy):
    """The strategy of device classes."""

    declarative_rules = DEVICE_CLASS

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_device_class(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_device_class_update(new, old))

    def warnings(self, new: Tree, old: Tree | None) -> list[str]:
        return _config_warnings(value_at(new, "spec", "config") or (), Path("spec") / "config")


class ResourceSliceStrategy(GenerationStrategy):
    """The strategy of resource slices."""

    declarative_rules = RESOURCE_SLICE

    def prepare_for_create(self, obj: Tree) -> None:
        super().prepare_for_create(obj)
        drop_disabled_slice_fields(obj, None)

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        super().prepare_for_update(new, old)
        drop_disabled_slice_fields(new, old)

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_resource_slice(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_resource_slice_update(new, old))

    def warnings(self, new: Tree, old: Tree | None) -> list[str]:
        return _driver_warnings(value_at(new, "spec", "driver") or "", Path("spec") / "driver")


class ResourceClaimStrategy(SpecStrategy):
    """The strategy of resource claims, whose spec is immutable."""

    tracks_generation = False
    declarative_rules = RESOURCE_CLAIM

    def prepare_for_create(self, obj: Tree) -> None:
        super().prepare_for_create(obj)
        drop_disabled_claim_fields(obj, None)

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        super().prepare_for_update(new, old)
        drop_disabled_claim_fields(new, old)

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_claim(obj))

    def warnings(self, new: Tree, old: Tree | None) -> list[str]:
        path = Path("spec") / "devices" / "config"
        return _config_warnings(value_at(new, "spec", "devices", "config") or (), path)


class ResourceClaimStatusStrategy(StatusStrategy):
    """The strategy of status updates of claims. Device statuses are dropped with the allocation of
    their devices."""

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        super().prepare_for_update(new, old)
        released = _allocated(old) - _allocated(new)
        status = new.get("status") or {}
        device_statuses = status.get("devices") or ()
        if any(device_id(device_status) in released for device_status in device_statuses):
            status["devices"] = [
                device_status
                for device_status in device_statuses
                if device_id(device_status) not in released
            ]
            if not status["devices"]:
                del status["devices"]
        drop_disabled_claim_fields(new, old)


def _allocated(obj: Tree) -> set[tuple[str, ...]]:
    results = value_at(obj, "status", "allocation", "devices", "results") or ()
    return {device_id(result) for result in results}


class ResourceClaimTemplateStrategy(Strategy):
    """The strategy of claim templates, whose spec is immutable."""

    declarative_rules = RESOURCE_CLAIM_TEMPLATE

    def prepare_for_create(self, obj: Tree) -> None:
        drop_disabled_template_fields(obj, None)

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        drop_disabled_template_fields(new, old)

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_claim_template(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_template_update(new, old))

    def warnings(self, new: Tree, old: Tree | None) -> list[str]:
        path = Path("spec") / "spec" / "devices" / "config"
        return _config_warnings(value_at(new, "spec", "spec", "devices", "config") or (), path)


class DeviceTaintRuleStrategy(SpecStrategy):
    """The strategy of device taint rules."""

    allow_unconditional_update = False  # in v1; older versions allow it
    declarative_rules = DEVICE_TAINT_RULE

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_taint_rule(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_taint_rule_update(new, old))


class PoolStatusRequestStrategy(SpecStrategy):
    """The strategy of pool status requests. A new request has no status, and a status is written
    once."""

    allow_unconditional_update = False
    tracks_generation = False
    declarative_rules = POOL_STATUS_REQUEST

    def prepare_for_create(self, obj: Tree) -> None:
        obj.pop("status", None)


_CLAIM = ResourceClaimStrategy()
_TAINT_RULE = DeviceTaintRuleStrategy()
_POOL_STATUS_REQUEST = PoolStatusRequestStrategy()

STRATEGIES: dict[str, Strategy] = {
    "deviceclasses": DeviceClassStrategy(),
    "devicetaintrules": _TAINT_RULE,
    "devicetaintrules/status": StatusStrategy(
        _TAINT_RULE, preserved_metadata=STATUS_METADATA, validate_status=validate_rule_status_update
    ),
    "resourceclaims": _CLAIM,
    "resourceclaims/status": ResourceClaimStatusStrategy(
        _CLAIM, preserved_metadata=STATUS_METADATA, validate_status=validate_claim_status_update
    ),
    "resourceclaimtemplates": ResourceClaimTemplateStrategy(),
    "resourcepoolstatusrequests": _POOL_STATUS_REQUEST,
    "resourcepoolstatusrequests/status": StatusStrategy(
        _POOL_STATUS_REQUEST,
        preserved_metadata=STATUS_METADATA,
        validate_status=validate_request_status_update,
    ),
    "resourceslices": ResourceSliceStrategy(),
}
