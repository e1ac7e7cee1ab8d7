"""The strategy of services. Mirrors pkg/registry/core/service/strategy.go."""

from __future__ import annotations

from kapiserver.api import names
from kapiserver.api.core import v1, warnings
from kapiserver.api.core.service_families import (
    drop_type_dependent_fields,
    normalize_cluster_ips,
    patch_allocated_values,
)
from kapiserver.api.core.services import EXTERNAL_NAME, HEADLESS, ip_family
from kapiserver.api.core.validation.services import (
    validate_service,
    validate_service_status_update,
    validate_service_update,
)
from kapiserver.api.errors import FieldError
from kapiserver.api.key_order import reorder_keys
from kapiserver.api.strategy import SpecStrategy, StatusStrategy, Strategy
from kapiserver.api.types import Tree


class ServiceStrategy(SpecStrategy):
    """The strategy of services. Updates that omit allocated addresses and ports keep them."""

    allow_create_on_update = True
    tracks_generation = False
    empty_status = {"loadBalancer": {}}

    def check_name(self, name: str) -> list[str]:
        return names.dns1123_label(name)

    def prepare_for_create(self, obj: Tree) -> None:
        super().prepare_for_create(obj)
        spec = obj.setdefault("spec", {})
        normalize_cluster_ips(spec, {})
        reorder_keys(spec, v1.ServiceSpec)

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        super().prepare_for_update(new, old)
        spec, old_spec = new.setdefault("spec", {}), old.get("spec") or {}
        patch_allocated_values(spec, old_spec)
        normalize_cluster_ips(spec, old_spec)
        drop_type_dependent_fields(spec, old_spec)
        reorder_keys(spec, v1.ServiceSpec)
        if spec.get("type") != "LoadBalancer":
            new["status"] = {**(new.get("status") or {}), "loadBalancer": {}}
            reorder_keys(new["status"], v1.ServiceStatus)

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_service(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_service_update(new, old))

    def canonicalize(self, obj: Tree) -> None:
        """Drop the traffic policy of an ExternalName service; kube-apiserver hides it in reads."""
        if obj["spec"].get("type") == EXTERNAL_NAME:
            obj["spec"].pop("internalTrafficPolicy", None)

    def fill_legacy_fields(self, obj: Tree) -> None:
        """Fill the fields that objects stored before 1.20 lack: the list of addresses and the
        family."""
        spec = obj.setdefault("spec", {})
        if spec.get("type") == EXTERNAL_NAME:
            spec.pop("internalTrafficPolicy", None)
            return
        normalize_cluster_ips(spec, {})
        address = spec.get("clusterIP") or HEADLESS
        if address != HEADLESS and not spec.get("ipFamilies"):
            spec["ipFamilies"], spec["ipFamilyPolicy"] = [ip_family(address)], "SingleStack"
        reorder_keys(spec, v1.ServiceSpec)

    def warnings(self, new: Tree, old: Tree | None) -> list[str]:
        return list(warnings.warnings_for_service(new))


_SERVICE = ServiceStrategy()

STRATEGIES: dict[str, Strategy] = {
    "services": _SERVICE,
    "services/status": StatusStrategy(_SERVICE, validate_status=validate_service_status_update),
}
