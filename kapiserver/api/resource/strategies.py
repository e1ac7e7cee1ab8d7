"""How writes of the resource group behave."""

from __future__ import annotations

from collections.abc import Iterable

from kapiserver.api.accessors import value_at
from kapiserver.api.errors import FieldError, Path
from kapiserver.api.resource.declarations import (
    DEVICE_CLASS,
    DEVICE_TAINT_RULE,
    POOL_STATUS_REQUEST,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_SLICE,
)
from kapiserver.api.resource.features import drop_of_claim, drop_of_slice, drop_of_template
from kapiserver.api.resource.validation.allocations import device_id, validate_claim_status_update
from kapiserver.api.resource.validation.claims import (
    kept_spec,
    validate_claim,
    validate_claim_template,
    validate_device_class,
    validate_device_class_update,
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


def _capitals(config: Iterable[Tree], path: Path) -> list[str]:
    found = ((value_at(one, "opaque", "driver") or "", path[index] / "opaque")
             for index, one in enumerate(config))  # fmt: skip
    return [text for driver, at in found for text in _capital(driver, at / "driver")]


def _capital(driver: str, path: Path) -> list[str]:
    if driver == driver.lower():
        return []
    words = "driver names should be lowercase"
    return [f'{path}: {words}; "{driver}" contains uppercase characters']


class DeviceClassStrategy(GenerationStrategy):
    """Devices of one sort."""

    declarative_rules = DEVICE_CLASS

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_device_class(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_device_class_update(new, old))

    def warnings(self, new: Tree, old: Tree | None) -> list[str]:
        return _capitals(value_at(new, "spec", "config") or (), Path("spec") / "config")


class ResourceSliceStrategy(GenerationStrategy):
    """Devices that a driver offers."""

    declarative_rules = RESOURCE_SLICE

    def prepare_for_create(self, obj: Tree) -> None:
        super().prepare_for_create(obj)
        drop_of_slice(obj, None)

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        super().prepare_for_update(new, old)
        drop_of_slice(new, old)

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_resource_slice(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_resource_slice_update(new, old))

    def warnings(self, new: Tree, old: Tree | None) -> list[str]:
        return _capital(value_at(new, "spec", "driver") or "", Path("spec") / "driver")


class ResourceClaimStrategy(SpecStrategy):
    """What is asked for does not change."""

    tracks_generation = False
    declarative_rules = RESOURCE_CLAIM

    def prepare_for_create(self, obj: Tree) -> None:
        super().prepare_for_create(obj)
        drop_of_claim(obj, None)

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        super().prepare_for_update(new, old)
        drop_of_claim(new, old)

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_claim(obj))

    def warnings(self, new: Tree, old: Tree | None) -> list[str]:
        path = Path("spec") / "devices" / "config"
        return _capitals(value_at(new, "spec", "devices", "config") or (), path)


class ResourceClaimStatusStrategy(StatusStrategy):
    """What is said of devices goes with them."""

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        super().prepare_for_update(new, old)
        gone = _allocated(old) - _allocated(new)
        status = new.get("status") or {}
        listed = status.get("devices") or ()
        if any(device_id(one) in gone for one in listed):
            status["devices"] = [one for one in listed if device_id(one) not in gone]
            if not status["devices"]:
                del status["devices"]
        drop_of_claim(new, old)


def _allocated(obj: Tree) -> set[tuple[str, ...]]:
    results = value_at(obj, "status", "allocation", "devices", "results") or ()
    return {device_id(one) for one in results}


class ResourceClaimTemplateStrategy(Strategy):
    """What claims of pods ask for does not change."""

    declarative_rules = RESOURCE_CLAIM_TEMPLATE

    def prepare_for_create(self, obj: Tree) -> None:
        drop_of_template(obj, None)

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        drop_of_template(new, old)

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_claim_template(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(kept_spec(new, old))

    def warnings(self, new: Tree, old: Tree | None) -> list[str]:
        path = Path("spec") / "spec" / "devices" / "config"
        return _capitals(value_at(new, "spec", "spec", "devices", "config") or (), path)


class DeviceTaintRuleStrategy(SpecStrategy):
    """Puts a taint on devices."""

    allow_unconditional_update = False  # in v1; older versions, which few serve, allow it
    declarative_rules = DEVICE_TAINT_RULE

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_taint_rule(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_taint_rule_update(new, old))


class PoolStatusRequestStrategy(SpecStrategy):
    """Asked once, answered once; its status is absent until then."""

    allow_unconditional_update = False
    tracks_generation = False
    declarative_rules = POOL_STATUS_REQUEST

    def prepare_for_create(self, obj: Tree) -> None:
        obj.pop("status", None)


_CLAIM = ResourceClaimStrategy()
_RULE = DeviceTaintRuleStrategy()
_REQUEST = PoolStatusRequestStrategy()

STRATEGIES: dict[str, Strategy] = {
    "deviceclasses": DeviceClassStrategy(),
    "devicetaintrules": _RULE,
    "devicetaintrules/status": StatusStrategy(
        _RULE, preserved_metadata=STATUS_METADATA, validate_status=validate_rule_status_update
    ),
    "resourceclaims": _CLAIM,
    "resourceclaims/status": ResourceClaimStatusStrategy(
        _CLAIM, preserved_metadata=STATUS_METADATA, validate_status=validate_claim_status_update
    ),
    "resourceclaimtemplates": ResourceClaimTemplateStrategy(),
    "resourcepoolstatusrequests": _REQUEST,
    "resourcepoolstatusrequests/status": StatusStrategy(
        _REQUEST, preserved_metadata=STATUS_METADATA, validate_status=validate_request_status_update
    ),
    "resourceslices": ResourceSliceStrategy(),
}
