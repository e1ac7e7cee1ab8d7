"""networking.k8s.io/v1: ways into the cluster, and who may talk to whom."""

from __future__ import annotations

from kapiserver.api.core.v1 import TypedLocalObjectReference
from kapiserver.api.leaves import IntOrString
from kapiserver.api.meta.v1 import Condition, LabelSelector, ObjectMeta
from kapiserver.api.types import Kind, Type, field, int32


class HTTPIngressPath(Type):
    """A path and where its requests go."""

    path: str = field(1, doc="The path that requests must have.")
    pathType: str | None = field(
        3,
        always=True,
        enum=("Exact", "Prefix", "ImplementationSpecific"),
        doc="How paths are compared.",
        required=True,
    )
    backend: IngressBackend = field(2, doc="Where the requests go.", required=True)


class HTTPIngressRuleValue(Type):
    """The paths of a rule."""

    paths: list[HTTPIngressPath] = field(1, always=True, required=True, doc="The paths.")


class IPAddress(Kind):
    """An address that is taken, and by whom."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: IPAddressSpec = field(2, required=True, doc="The desired state.")


class IPAddressSpec(Type):
    """By whom an address is taken."""

    parentRef: ParentReference | None = field(1, required=True, doc="What the address belongs to.")


class IPBlock(Type):
    """A network, less some of it."""

    cidr: str = field(1, always=True, required=True, doc="The network.")
    except_: list[str] = field(2, doc="What of it is left out.")


class Ingress(Kind):
    """Leads requests from outside to services, by host and path."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: IngressSpec = field(2, doc="The desired state.")
    status: IngressStatus = field(3, doc="The observed state.")


class IngressBackend(Type):
    """Where requests go."""

    service: IngressServiceBackend | None = field(4, doc="The service.")
    resource: TypedLocalObjectReference | None = field(
        3, doc="An object, where there is no service."
    )


class IngressClass(Kind):
    """A controller of ingresses."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: IngressClassSpec = field(2, doc="The desired state.")


class IngressClassParametersReference(Type):
    """Where the parameters of a class are."""

    apiGroup: str | None = field(1, proto="aPIGroup", doc="The group of the object; empty: core.")
    kind: str = field(2, always=True, required=True, doc="The kind of the object.")
    name: str = field(3, always=True, required=True, doc="Its name.")
    scope: str | None = field(4, always=True, doc="Cluster or Namespace.")
    namespace: str | None = field(5, doc="Its namespace.")


class IngressClassSpec(Type):
    """Which controller, with which parameters."""

    controller: str = field(1, doc="Who serves ingresses of the class.")
    parameters: IngressClassParametersReference | None = field(
        2, doc="Settings for the controller."
    )


class IngressLoadBalancerIngress(Type):
    """One address of an ingress."""

    ip: str = field(1, doc="An IP address.")
    hostname: str = field(2, doc="A host name.")
    ports: list[IngressPortStatus] = field(4, doc="The ports.")


class IngressLoadBalancerStatus(Type):
    """The addresses of an ingress."""

    ingress: list[IngressLoadBalancerIngress] = field(1, doc="Where it is reached.")


class IngressPortStatus(Type):
    """One port of an address, or what went wrong."""

    port: int32 = field(1, always=True, required=True, doc="The number of the port.")
    protocol: str = field(
        2, always=True, enum=("TCP", "UDP", "SCTP"), required=True, doc="TCP, UDP or SCTP."
    )
    error: str | None = field(3, doc="What went wrong.")


class IngressRule(Type):
    """A host and its paths."""

    host: str = field(1, doc="The host name; empty for all.")
    ingressRuleValue: IngressRuleValue = field(2, inline=True)


class IngressRuleValue(Type):
    """What a rule is about."""

    http: HTTPIngressRuleValue | None = field(1, doc="By host and path of a request.")


class IngressServiceBackend(Type):
    """A service and its port."""

    name: str = field(1, always=True, doc="The service.", required=True)
    port: ServiceBackendPort = field(2, doc="Its port.")


class IngressSpec(Type):
    """Which hosts and paths lead where."""

    ingressClassName: str | None = field(4, doc="The class that serves it.")
    defaultBackend: IngressBackend | None = field(1, doc="Where requests go that no rule fits.")
    tls: list[IngressTLS] = field(2, doc="Certificates.")
    rules: list[IngressRule] = field(3, doc="Hosts and paths.")


class IngressStatus(Type):
    """What is known of an ingress."""

    loadBalancer: IngressLoadBalancerStatus = field(1, doc="How the load balancer is reached.")


class IngressTLS(Type):
    """A certificate and its hosts."""

    hosts: list[str] = field(1, doc="Hosts of the certificate.")
    secretName: str = field(2, doc="The secret with the certificate.")


class NetworkPolicy(Kind):
    """Who may talk to some pods, and whom they may talk to."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: NetworkPolicySpec = field(2, doc="The desired state.")


class NetworkPolicyEgressRule(Type):
    """Whom the pods may talk to, at which ports."""

    ports: list[NetworkPolicyPort] = field(1, doc="The ports.")
    to: list[NetworkPolicyPeer] = field(2, doc="Where traffic may go.")


class NetworkPolicyIngressRule(Type):
    """Who may talk to the pods, at which ports."""

    ports: list[NetworkPolicyPort] = field(1, doc="The ports.")
    from_: list[NetworkPolicyPeer] = field(2, doc="Where traffic may come from.")


class NetworkPolicyPeer(Type):
    """Pods, namespaces or a network."""

    podSelector: LabelSelector | None = field(1, doc="Which pods, by their labels.")
    namespaceSelector: LabelSelector | None = field(2, doc="Which namespaces, by their labels.")
    ipBlock: IPBlock | None = field(3, doc="Which addresses.")


class NetworkPolicyPort(Type):
    """A port or a range of them."""

    protocol: str | None = field(1, enum=("TCP", "UDP", "SCTP"), doc="TCP, UDP or SCTP.")
    port: IntOrString | None = field(2, doc="The port by number or name; all without.")
    endPort: int32 | None = field(3, doc="The last port of a range.")


class NetworkPolicySpec(Type):
    """Which pods, and what they may do."""

    podSelector: LabelSelector = field(1, doc="The pods it is for.")
    ingress: list[NetworkPolicyIngressRule] = field(2, doc="Who may talk to them.")
    egress: list[NetworkPolicyEgressRule] = field(3, doc="Whom they may talk to.")
    policyTypes: list[str] = field(
        4, enum=("Ingress", "Egress"), doc="Which directions it is about."
    )


class ParentReference(Type):
    """The object that took an address."""

    group: str = field(1, doc="The API group.")
    resource: str = field(2, required=True, doc="Which resource.")
    namespace: str = field(3, doc="Its namespace.")
    name: str = field(4, required=True, doc="Its name.")


class ServiceBackendPort(Type):
    """A port of a service by name or number."""

    atomic = True

    name: str = field(1, doc="The port by name.")
    number: int32 = field(2, doc="The port by number.")


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

    conditions: list[Condition] = field(
        1, keys=("type",), merge="type", doc="What was found out about it."
    )
