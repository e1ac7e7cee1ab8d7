"""networking.k8s.io/v1beta1: the types of v1, but for the differences below."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapiserver.api.core.v1 import TypedLocalObjectReference
from kapiserver.api.networking import v1
from kapiserver.api.scalar_types import IntOrString
from kapiserver.api.types import Type, field, inherit_types, override_field

if TYPE_CHECKING:
    from kapiserver.api.networking.v1 import IngressRule, IngressTLS

inherit_types(
    __name__,
    v1,
    without=(
        "IPBlock",
        "IngressServiceBackend",
        "NetworkPolicy",
        "NetworkPolicyEgressRule",
        "NetworkPolicyIngressRule",
        "NetworkPolicyPeer",
        "NetworkPolicyPort",
        "NetworkPolicySpec",
        "ServiceBackendPort",
    ),
)


class HTTPIngressPath(v1.HTTPIngressPath):
    pathType = override_field(always=False, enum=(), required=False)
    backend = override_field(required=False)


class HTTPIngressRuleValue(v1.HTTPIngressRuleValue):
    paths = override_field(required=False)


class IngressBackend(Type):
    """Where requests go."""

    serviceName: str = field(1)
    servicePort: IntOrString = field(2)
    resource: TypedLocalObjectReference | None = field(
        3, doc="An object, where there is no service."
    )


class IngressPortStatus(v1.IngressPortStatus):
    port = override_field(required=False)
    protocol = override_field(required=False)
    error = override_field(required=True)


class IngressSpec(Type):
    """Which hosts and paths lead where."""

    ingressClassName: str | None = field(4, doc="The class that serves it.")
    backend: IngressBackend | None = field(1)
    tls: list[IngressTLS] = field(2, doc="Certificates.")
    rules: list[IngressRule] = field(3, doc="Hosts and paths.")
