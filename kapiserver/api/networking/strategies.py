"""Strategies of the networking group."""

from __future__ import annotations

from kapiserver.api import addresses
from kapiserver.api.errors import FieldError
from kapiserver.api.networking import warnings
from kapiserver.api.networking.declarative_rules import INGRESS_CLASS, IP_ADDRESS, NETWORK_POLICY
from kapiserver.api.networking.validation.allocations import (
    validate_ip_address,
    validate_ip_address_update,
    validate_service_cidr,
    validate_service_cidr_update,
)
from kapiserver.api.networking.validation.ingresses import (
    validate_ingress,
    validate_ingress_class,
    validate_ingress_class_update,
    validate_ingress_status_update,
    validate_ingress_update,
)
from kapiserver.api.networking.validation.policies import (
    validate_network_policy,
    validate_network_policy_update,
)
from kapiserver.api.strategy import (
    STATUS_METADATA,
    GenerationStrategy,
    SpecStrategy,
    StatusStrategy,
    Strategy,
)
from kapiserver.api.types import Tree


class IngressStrategy(SpecStrategy):
    """The strategy of ingresses."""

    empty_status = {"loadBalancer": {}}

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_ingress(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_ingress_update(new, old))

    def warnings(self, new: Tree, old: Tree | None) -> list[str]:
        return list(warnings.warnings_for_ingress(new)) if old is None else []


class IngressStatusStrategy(StatusStrategy):
    """The strategy of status updates of ingresses."""

    def warnings(self, new: Tree, old: Tree | None) -> list[str]:
        return list(warnings.warnings_for_ingress_status(new))


class IngressClassStrategy(GenerationStrategy):
    """The strategy of ingress classes."""

    declarative_rules = INGRESS_CLASS

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_ingress_class(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_ingress_class_update(new, old))


class NetworkPolicyStrategy(GenerationStrategy):
    """The strategy of network policies."""

    declarative_rules = NETWORK_POLICY

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_network_policy(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_network_policy_update(new, old))

    def warnings(self, new: Tree, old: Tree | None) -> list[str]:
        return list(warnings.warnings_for_network_policy(new))


class IPAddressStrategy(Strategy):
    """The strategy of IP addresses, whose names are the addresses."""

    declarative_rules = IP_ADDRESS

    def check_name(self, name: str) -> list[str]:
        return addresses.canonical_ip(name)

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_ip_address(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_ip_address_update(new, old))


class ServiceCIDRStrategy(Strategy):
    """The strategy of service CIDRs. Create accepts a status."""

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_service_cidr(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_service_cidr_update(new, old))


_INGRESS = IngressStrategy()
_SERVICE_CIDR = ServiceCIDRStrategy()

STRATEGIES: dict[str, Strategy] = {
    "ingressclasses": IngressClassStrategy(),
    "ingresses": _INGRESS,
    "ingresses/status": IngressStatusStrategy(
        _INGRESS, validate_status=validate_ingress_status_update
    ),
    "ipaddresses": IPAddressStrategy(),
    "networkpolicies": NetworkPolicyStrategy(),
    "servicecidrs": _SERVICE_CIDR,
    "servicecidrs/status": StatusStrategy(_SERVICE_CIDR, preserved_metadata=STATUS_METADATA),
}
