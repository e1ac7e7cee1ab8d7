"""networking.k8s.io/v1beta1: ways into the cluster, and who may talk to whom."""

from __future__ import annotations

from kapiserver.api.core.v1 import TypedLocalObjectReference
from kapiserver.api.leaves import IntOrString
from kapiserver.api.meta.v1 import Condition, ObjectMeta
from kapiserver.api.types import Kind, Type, field, int32


class HTTPIngressPath(Type):
    """A path and where its requests go."""

    path: str = field(1, doc="The path that requests must have.")
    pathType: str | None = field(3, doc="How paths are compared.")
    backend: IngressBackend = field(2, doc="Where the requests go.")


class HTTPIngressRuleValue(Type):
    """The paths of a rule."""

    paths: list[HTTPIngressPath] = field(1, always=True)


class IPAddress(Kind):
    """An address that is taken, and by whom."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: IPAddressSpec = field(2, required=True, doc="The desired state.")


class IPAddressSpec(Type):
    """By whom an address is taken."""

    parentRef: ParentReference | None = field(1, required=True)


class Ingress(Kind):
    """Leads requests from outside to services, by host and path."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: IngressSpec = field(2, doc="The desired state.")
    status: IngressStatus = field(3, doc="The observed state.")


class IngressBackend(Type):
    """Where requests go."""

    serviceName: str = field(1)
    servicePort: IntOrString = field(2)
    resource: TypedLocalObjectReference | None = field(
        3, doc="An object, where there is no service."
    )


class IngressClass(Kind):
    """A controller of ingresses."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: IngressClassSpec = field(2, doc="The desired state.")


class IngressClassParametersReference(Type):
    """Where the parameters of a class are."""

    apiGroup: str | None = field(1, proto="aPIGroup")
    kind: str = field(2, always=True, required=True)
    name: str = field(3, always=True, required=True)
    scope: str | None = field(4, always=True)
    namespace: str | None = field(5)


class IngressClassSpec(Type):
    """Which controller, with which parameters."""

    controller: str = field(1, doc="Who serves ingresses of the class.")
    parameters: IngressClassParametersReference | None = field(
        2, doc="Settings for the controller."
    )


class IngressLoadBalancerIngress(Type):
    """One address of an ingress."""

    ip: str = field(1)
    hostname: str = field(2)
    ports: list[IngressPortStatus] = field(4)


class IngressLoadBalancerStatus(Type):
    """The addresses of an ingress."""

    ingress: list[IngressLoadBalancerIngress] = field(1)


class IngressPortStatus(Type):
    """One port of an address, or what went wrong."""

    port: int32 = field(1, always=True)
    protocol: str = field(2, always=True, enum=("TCP", "UDP", "SCTP"))
    error: str | None = field(3, required=True)


class IngressRule(Type):
    """A host and its paths."""

    host: str = field(1, doc="The host name; empty for all.")
    ingressRuleValue: IngressRuleValue = field(2, inline=True)


class IngressRuleValue(Type):
    """What a rule is about."""

    http: HTTPIngressRuleValue | None = field(1)


class IngressSpec(Type):
    """Which hosts and paths lead where."""

    ingressClassName: str | None = field(4, doc="The class that serves it.")
    backend: IngressBackend | None = field(1)
    tls: list[IngressTLS] = field(2, doc="Certificates.")
    rules: list[IngressRule] = field(3, doc="Hosts and paths.")


class IngressStatus(Type):
    """What is known of an ingress."""

    loadBalancer: IngressLoadBalancerStatus = field(1)


class IngressTLS(Type):
    """A certificate and its hosts."""

    hosts: list[str] = field(1, doc="Hosts of the certificate.")
    secretName: str = field(2, doc="The secret with the certificate.")


class ParentReference(Type):
    """The object that took an address."""

    group: str = field(1)
    resource: str = field(2, required=True)
    namespace: str = field(3)
    name: str = field(4, required=True)


class ServiceCIDR(Kind):
    """A range for the addresses of services."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: ServiceCIDRSpec = field(2, doc="The desired state.")
    status: ServiceCIDRStatus = field(3, doc="The observed state.")


class ServiceCIDRSpec(Type):
    """The ranges, one for each family."""

    cidrs: list[str] = field(1, doc="One range for each family.")


class ServiceCIDRStatus(Type):
    """What is known of a range."""

    conditions: list[Condition] = field(1, keys=("type",), merge="type")
