"""networking.k8s.io/v1beta1: the types of v1; the differences are below."""

from __future__ import annotations

from kapiserver.api.core.v1 import TypedLocalObjectReference
from kapiserver.api.networking import v1
from kapiserver.api.scalar_types import IntOrString
from kapiserver.api.types import Type, field, inherit_types, override_field, remove_field

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
    pathType = override_field(
        always=False,
        enum=(),
        required=False,
        doc=(
            "How path is compared: Exact in full, Prefix by its parts between slashes, "
            "ImplementationSpecific (the default) as the IngressClass does it."
        ),
    )
    backend = override_field(required=False)


class HTTPIngressRuleValue(v1.HTTPIngressRuleValue):
    paths = override_field(required=False)


class IngressBackend(Type):
    """Where requests go: to a Service or to another resource, exactly one of them."""

    serviceName: str = field(
        1, doc="Name of the Service, in the namespace of the Ingress. Excludes resource."
    )
    servicePort: IntOrString = field(2, doc="Port of the Service, by number or by name.")
    resource: TypedLocalObjectReference | None = field(
        3,
        doc=(
            "Object in the namespace of the Ingress that requests go to, such as a bucket for "
            "static files. Excludes serviceName and servicePort."
        ),
    )


class IngressPortStatus(v1.IngressPortStatus):
    port = override_field(required=False)
    protocol = override_field(required=False)
    error = override_field(required=True)


class IngressSpec(v1.IngressSpec):
    backend: IngressBackend | None = field(
        1,
        before="tls",
        doc=(
            "Where requests go that no rule matches. Required if there are no rules; if unset, "
            "the controller decides. v1 calls it defaultBackend."
        ),
    )
    defaultBackend = remove_field()
    rules = override_field(doc="Routes by host and path. If empty, all requests go to backend.")
