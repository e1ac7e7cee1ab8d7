"""networking.k8s.io/v1: ingresses, network policies, and the address ranges of Services."""

from __future__ import annotations

from kapiserver.api.core.v1 import TypedLocalObjectReference
from kapiserver.api.meta.v1 import Condition, LabelSelector, ObjectMeta
from kapiserver.api.scalar_types import IntOrString
from kapiserver.api.types import Kind, Type, field, int32


class HTTPIngressPath(Type):
    """A path of requests and the backend that they go to."""

    path: str = field(
        1,
        doc=(
            "Path that requests must have. Starts with a slash; required for Exact and Prefix. "
            "Empty means all paths."
        ),
    )
    pathType: str | None = field(
        3,
        always=True,
        enum=("Exact", "Prefix", "ImplementationSpecific"),
        doc=(
            "How path is compared: Exact in full, Prefix by its parts between slashes, "
            "ImplementationSpecific as the IngressClass does it."
        ),
        required=True,
    )
    backend: IngressBackend = field(
        2, doc="The Service or resource that requests with this path go to.", required=True
    )


class HTTPIngressRuleValue(Type):
    """The paths of a rule and their backends."""

    paths: list[HTTPIngressPath] = field(
        1,
        always=True,
        required=True,
        doc="Paths and their backends, at least one. If several match, the longest path is used.",
    )


class IPAddress(Kind):
    """An IP address that is in use. The API server makes one for each cluster IP of a Service, so
    that no address is used twice."""

    metadata: ObjectMeta = field(
        1,
        doc=(
            "Standard object's metadata. The name is the address in canonical form, such as "
            "192.168.1.5 or 2001:db8::1."
        ),
    )
    spec: IPAddressSpec = field(2, required=True, doc="The object that uses the address.")


class IPAddressSpec(Type):
    """The object that uses an IP address."""

    parentRef: ParentReference | None = field(
        1,
        required=True,
        doc="The object, usually a Service, that uses the address. Cannot be updated.",
    )


class IPBlock(Type):
    """A range of IP addresses, without some parts of it."""

    cidr: str = field(
        1,
        always=True,
        required=True,
        doc="Range of addresses in CIDR notation, such as 192.168.1.0/24 or 2001:db8::/64.",
    )
    except_: list[str] = field(
        2,
        doc=(
            "Ranges within cidr that do not match, in CIDR notation. Each must be smaller than "
            "cidr and inside of it."
        ),
    )


class Ingress(Kind):
    """Rules by which an ingress controller routes HTTP requests from outside of the cluster to
    Services."""

    metadata: ObjectMeta = field(
        1, doc="Standard object's metadata, such as its name, labels and owners."
    )
    spec: IngressSpec = field(2, doc="Hosts, paths, backends and TLS certificates.")
    status: IngressStatus = field(
        3, doc="Addresses at which the ingress is reached, reported by its controller."
    )


class IngressBackend(Type):
    """Where requests go: to a Service or to another resource, exactly one of them."""

    service: IngressServiceBackend | None = field(
        4, doc="Service and port that requests go to. Excludes resource."
    )
    resource: TypedLocalObjectReference | None = field(
        3,
        doc=(
            "Object in the namespace of the Ingress that requests go to, such as a bucket for "
            "static files. Excludes service."
        ),
    )


class IngressClass(Kind):
    """A class of ingresses and the controller that implements it. The annotation
    ingressclass.kubernetes.io/is-default-class marks the default."""

    metadata: ObjectMeta = field(
        1, doc="Standard object's metadata, such as its name, labels and owners."
    )
    spec: IngressClassSpec = field(2, doc="The controller of the class and its parameters.")


class IngressClassParametersReference(Type):
    """The object with the parameters of an IngressClass."""

    apiGroup: str | None = field(
        1, proto="aPIGroup", doc="API group of the parameters object; unset means the core group."
    )
    kind: str = field(
        2,
        always=True,
        required=True,
        doc="Kind of the parameters object, such as IngressParameters.",
    )
    name: str = field(3, always=True, required=True, doc="Name of the parameters object.")
    scope: str | None = field(
        4,
        always=True,
        doc="Whether the parameters object is in a namespace: Cluster (the default) or Namespace.",
    )
    namespace: str | None = field(
        5,
        doc=(
            "Namespace of the parameters object. Required if scope is Namespace, forbidden if it "
            "is Cluster."
        ),
    )


class IngressClassSpec(Type):
    """The controller of an IngressClass and its parameters."""

    controller: str = field(
        1,
        doc=(
            "Name of the controller that handles ingresses of the class, a domain-prefixed path "
            "such as example.com/ingress. At most 250 characters; cannot be updated."
        ),
    )
    parameters: IngressClassParametersReference | None = field(
        2,
        doc="Object with further settings for the controller. Unset if the controller needs none.",
    )


class IngressLoadBalancerIngress(Type):
    """One address at which the load balancer of an ingress is reached."""

    ip: str = field(1, doc="IP address of the load balancer, if it has a fixed one.")
    hostname: str = field(2, doc="DNS name of the load balancer, if it is reached by name.")
    ports: list[IngressPortStatus] = field(
        4, doc="Ports that the load balancer opens, and their errors."
    )


class IngressLoadBalancerStatus(Type):
    """The addresses of the load balancer of an ingress."""

    ingress: list[IngressLoadBalancerIngress] = field(
        1,
        doc=(
            "Addresses at which the load balancer is reached. Empty until the controller has set "
            "it up."
        ),
    )


class IngressPortStatus(Type):
    """One port of a load balancer, or why it does not work."""

    port: int32 = field(1, always=True, required=True, doc="Port number on the load balancer.")
    protocol: str = field(
        2,
        always=True,
        enum=("TCP", "UDP", "SCTP"),
        required=True,
        doc="Protocol of the port: TCP, UDP or SCTP.",
    )
    error: str | None = field(
        3,
        doc=(
            "Reason why the port does not work, in CamelCase; specific errors of a provider have "
            "its domain as prefix. Absent if it works."
        ),
    )


class IngressRule(Type):
    """The routes of one host."""

    host: str = field(
        1,
        doc=(
            "DNS name of the host, not an IP address. *.example.com matches one more label. Empty "
            "matches all hosts."
        ),
    )
    ingressRuleValue: IngressRuleValue = field(
        2, inline=True, doc="Routes of the host; its fields appear directly in this object."
    )


class IngressRuleValue(Type):
    """The routes of a rule, by protocol."""

    http: HTTPIngressRuleValue | None = field(
        1,
        doc=(
            "Paths of HTTP requests and their backends. If unset, all requests to the host go to "
            "the default backend."
        ),
    )


class IngressServiceBackend(Type):
    """A Service and the port of it that requests go to."""

    name: str = field(
        1, always=True, doc="Name of the Service, in the namespace of the Ingress.", required=True
    )
    port: ServiceBackendPort = field(2, doc="Port of the Service, by name or by number.")


class IngressSpec(Type):
    """The class, hosts, paths and certificates of an ingress."""

    ingressClassName: str | None = field(
        4,
        doc=(
            "Name of the IngressClass whose controller handles this ingress. If unset, the "
            "default class is filled in at creation, if there is one."
        ),
    )
    defaultBackend: IngressBackend | None = field(
        1,
        doc=(
            "Where requests go that no rule matches. Required if there are no rules; if unset, "
            "the controller decides."
        ),
    )
    tls: list[IngressTLS] = field(
        2,
        doc=(
            "Certificates for HTTPS on port 443. If several entries name a host, the controller "
            "chooses."
        ),
    )
    rules: list[IngressRule] = field(
        3, doc="Routes by host and path. If empty, all requests go to defaultBackend."
    )


class IngressStatus(Type):
    """The observed state of an ingress."""

    loadBalancer: IngressLoadBalancerStatus = field(
        1, doc="Addresses at which the load balancer of the ingress is reached."
    )


class IngressTLS(Type):
    """A TLS certificate and the hosts that it is for."""

    hosts: list[str] = field(
        1, doc="Host names in the certificate. Defaults to the wildcard host of the load balancer."
    )
    secretName: str = field(
        2,
        doc=(
            "Name of the Secret with the certificate and key for port 443, in the namespace of "
            "the Ingress. Unset leaves it to the controller."
        ),
    )


class NetworkPolicy(Kind):
    """Which network traffic the selected pods may receive and send. Policies add up; a pod that no
    policy selects is not restricted."""

    metadata: ObjectMeta = field(
        1, doc="Standard object's metadata, such as its name, labels and owners."
    )
    spec: NetworkPolicySpec = field(2, doc="The selected pods and the allowed traffic.")


class NetworkPolicyEgressRule(Type):
    """Traffic that the selected pods may send. It must match ports and to."""

    ports: list[NetworkPolicyPort] = field(
        1,
        doc=(
            "Destination ports of the allowed traffic; one match is enough. Empty allows all ports."
        ),
    )
    to: list[NetworkPolicyPeer] = field(
        2,
        doc=(
            "Destinations of the allowed traffic; one match is enough. Empty allows all "
            "destinations."
        ),
    )


class NetworkPolicyIngressRule(Type):
    """Traffic that the selected pods may receive. It must match ports and from."""

    ports: list[NetworkPolicyPort] = field(
        1,
        doc=(
            "Ports of the pods that may receive traffic; one match is enough. Empty allows all "
            "ports."
        ),
    )
    from_: list[NetworkPolicyPeer] = field(
        2, doc="Sources of the allowed traffic; one match is enough. Empty allows all sources."
    )


class NetworkPolicyPeer(Type):
    """A source or destination of traffic: pods, or a range of addresses. At least one field is
    required."""

    podSelector: LabelSelector | None = field(
        1,
        doc=(
            "Pods by their labels, in the namespaces of namespaceSelector or, without it, of the "
            "policy. An empty selector matches all pods."
        ),
    )
    namespaceSelector: LabelSelector | None = field(
        2,
        doc=(
            "Namespaces by their labels; an empty selector matches all. Without podSelector, all "
            "pods in them match."
        ),
    )
    ipBlock: IPBlock | None = field(
        3, doc="Range of addresses. Excludes podSelector and namespaceSelector."
    )


class NetworkPolicyPort(Type):
    """A port, or a range of ports, that traffic is allowed on."""

    protocol: str | None = field(
        1,
        enum=("TCP", "UDP", "SCTP"),
        doc="Protocol of the traffic: TCP (the default), UDP or SCTP.",
    )
    port: IntOrString | None = field(
        2,
        doc=(
            "Port by number, or by the name of a container port. Unset allows all ports of the "
            "protocol."
        ),
    )
    endPort: int32 | None = field(
        3,
        doc="Last port of a range that begins at port; not less than port, which must be a number.",
    )


class NetworkPolicySpec(Type):
    """The pods that a policy selects and the traffic that it allows."""

    podSelector: LabelSelector = field(
        1,
        doc=(
            "Pods in the policy's namespace that the policy applies to, by their labels. An empty "
            "selector selects all of them."
        ),
    )
    ingress: list[NetworkPolicyIngressRule] = field(
        2, doc="Traffic that the pods may receive. Empty allows none if policyTypes has Ingress."
    )
    egress: list[NetworkPolicyEgressRule] = field(
        3, doc="Traffic that the pods may send. Empty allows none if policyTypes has Egress."
    )
    policyTypes: list[str] = field(
        4,
        enum=("Ingress", "Egress"),
        doc=(
            "Directions that the policy restricts: Ingress, Egress or both. Defaults to Ingress, "
            "and Egress too if there are egress rules."
        ),
    )


class ParentReference(Type):
    """The object that uses an IP address."""

    group: str = field(1, doc="API group of the object; empty means the core group.")
    resource: str = field(
        2, required=True, doc="Plural resource name of the object, such as services."
    )
    namespace: str = field(3, doc="Namespace of the object; empty if it is cluster-scoped.")
    name: str = field(4, required=True, doc="Name of the object that uses the address.")


class ServiceBackendPort(Type):
    """A port of a Service, by name or by number: exactly one of them."""

    atomic = True

    name: str = field(1, doc="Name of the port in the Service. Excludes number.")
    number: int32 = field(2, doc="Number of the port in the Service, such as 80. Excludes name.")


class ServiceCIDR(Kind):
    """Ranges of IP addresses from which cluster IPs of Services are taken."""

    metadata: ObjectMeta = field(
        1, doc="Standard object's metadata, such as its name, labels and owners."
    )
    spec: ServiceCIDRSpec = field(2, doc="The ranges of addresses, at most one for each IP family.")
    status: ServiceCIDRStatus = field(
        3, doc="Conditions that the controller reports about the ranges."
    )


class ServiceCIDRSpec(Type):
    """The ranges of a ServiceCIDR."""

    cidrs: list[str] = field(
        1,
        doc=(
            "Ranges in CIDR notation: one, or one IPv4 and one IPv6. They cannot be changed, but "
            "a second one can be added."
        ),
    )


class ServiceCIDRStatus(Type):
    """The observed state of a ServiceCIDR."""

    conditions: list[Condition] = field(
        1,
        keys=("type",),
        merge="type",
        doc=(
            "Aspects of the ranges' state, at most one per type. Ready is True if addresses can "
            "be taken from them."
        ),
    )
