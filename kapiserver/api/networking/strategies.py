"""How writes of the networking group behave."""

from __future__ import annotations

from kapiserver.api import addresses
from kapiserver.api.errors import FieldError
from kapiserver.api.networking import warnings
from kapiserver.api.networking.declarations import INGRESS_CLASS, IP_ADDRESS, NETWORK_POLICY
from kapiserver.api.networking.validation.allocations import (
    changed_ip_address,
    changed_service_cidr,
    ip_address,
    service_cidr,
)
from kapiserver.api.networking.validation.ingresses import (
    changed_ingress,
    changed_ingress_class,
    changed_ingress_status,
    ingress,
    ingress_class,
)
from kapiserver.api.networking.validation.policies import (
    changed_network_policy,
    network_policy,
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
    """Ways into the cluster; their addresses are the controller's."""

    empty_status = {"loadBalancer": {}}

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(ingress(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(changed_ingress(new, old))

    def warnings(self, new: Tree, old: Tree | None) -> list[str]:
        return list(warnings.ingress(new)) if old is None else []


class IngressStatusStrategy(StatusStrategy):
    """The addresses of an ingress."""

    def warnings(self, new: Tree, old: Tree | None) -> list[str]:
        return list(warnings.ingress_status(new))


class IngressClassStrategy(GenerationStrategy):
    """Who serves ingresses."""

    declarative_rules = INGRESS_CLASS

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(ingress_class(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(changed_ingress_class(new, old))


class NetworkPolicyStrategy(GenerationStrategy):
    """Who may talk to whom."""

    declarative_rules = NETWORK_POLICY

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(network_policy(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(changed_network_policy(new, old))

    def warnings(self, new: Tree, old: Tree | None) -> list[str]:
        return list(warnings.network_policy(new))


class IPAddressStrategy(Strategy):
    """Its name is the address."""

    declarative_rules = IP_ADDRESS

    def check_name(self, name: str) -> list[str]:
        return addresses.canonical_ip(name)

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(ip_address(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(changed_ip_address(new, old))


class ServiceCIDRStrategy(Strategy):
    """A range; its status is whoever's writes it."""

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(service_cidr(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(changed_service_cidr(new, old))


_INGRESS = IngressStrategy()
_SERVICE_CIDR = ServiceCIDRStrategy()

STRATEGIES: dict[str, Strategy] = {
    "ingressclasses": IngressClassStrategy(),
    "ingresses": _INGRESS,
    "ingresses/status": IngressStatusStrategy(_INGRESS, rule=changed_ingress_status),
    "ipaddresses": IPAddressStrategy(),
    "networkpolicies": NetworkPolicyStrategy(),
    "servicecidrs": _SERVICE_CIDR,
    "servicecidrs/status": StatusStrategy(_SERVICE_CIDR, keeps_metadata=STATUS_METADATA),
}
