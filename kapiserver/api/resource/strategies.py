"""How writes of the resource group behave."""

from __future__ import annotations

from kapiserver.api.errors import FieldError
from kapiserver.api.objects import generation_of, metadata_of
from kapiserver.api.resource.validation.claims import (
    changed_claim_status,
    claim,
    claim_template,
    device_class,
    kept_spec,
)
from kapiserver.api.resource.validation.slices import (
    changed_conditions,
    changed_resource_slice,
    resource_slice,
    status_request,
    taint_rule,
)
from kapiserver.api.strategy import STATUS_METADATA, SpecStrategy, StatusStrategy, Strategy
from kapiserver.api.types import Tree


class _GenerationStrategy(Strategy):
    """Without a status, and yet its spec has generations."""

    def prepare_for_create(self, obj: Tree) -> None:
        metadata_of(obj)["generation"] = 1

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        if new.get("spec") != old.get("spec"):
            metadata_of(new)["generation"] = generation_of(old) + 1


class DeviceClassStrategy(_GenerationStrategy):
    """Devices of one sort."""

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(device_class(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(device_class(new))


class ResourceSliceStrategy(_GenerationStrategy):
    """Devices that a driver offers."""

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(resource_slice(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(changed_resource_slice(new, old))


class ResourceClaimStrategy(SpecStrategy):
    """What is asked for does not change."""

    generations = False

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(claim(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(kept_spec(new, old))


class ResourceClaimTemplateStrategy(Strategy):
    """What claims of pods ask for does not change."""

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(claim_template(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(kept_spec(new, old))


class DeviceTaintRuleStrategy(SpecStrategy):
    """Puts a taint on devices."""

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(taint_rule(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(taint_rule(new))


class PoolStatusRequestStrategy(SpecStrategy):
    """Asked once, answered once; its status is absent until then."""

    allow_unconditional_update = False
    generations = False

    def prepare_for_create(self, obj: Tree) -> None:
        obj.pop("status", None)

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(status_request(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(kept_spec(new, old))


_CLAIM = ResourceClaimStrategy()
_RULE = DeviceTaintRuleStrategy()
_REQUEST = PoolStatusRequestStrategy()

STRATEGIES: dict[str, Strategy] = {
    "deviceclasses": DeviceClassStrategy(),
    "devicetaintrules": _RULE,
    "devicetaintrules/status": StatusStrategy(
        _RULE, keeps_metadata=STATUS_METADATA, rule=changed_conditions
    ),
    "resourceclaims": _CLAIM,
    "resourceclaims/status": StatusStrategy(
        _CLAIM, keeps_metadata=STATUS_METADATA, rule=changed_claim_status
    ),
    "resourceclaimtemplates": ResourceClaimTemplateStrategy(),
    "resourcepoolstatusrequests": _REQUEST,
    "resourcepoolstatusrequests/status": StatusStrategy(
        _REQUEST, keeps_metadata=STATUS_METADATA, rule=changed_conditions
    ),
    "resourceslices": ResourceSliceStrategy(),
}
