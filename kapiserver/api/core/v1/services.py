"""Service: a stable address and name for a set of pods."""

from __future__ import annotations

from kapiserver.api.meta.v1 import Condition, ObjectMeta
from kapiserver.api.scalar_types import IntOrString
from kapiserver.api.types import Kind, Type, field, int32


class Service(Kind):
    """A stable name and address for a set of pods, with load balancing among them."""

    metadata: ObjectMeta = field(
        1,
        doc=(
            "Standard object's metadata. The name, a DNS label, becomes the service's name in the "
            "cluster's DNS."
        ),
    )
    spec: ServiceSpec = field(
        2, doc="Desired state of the service: its pods, ports, type and addresses."
    )
    status: ServiceStatus = field(
        3, doc="Observed state of the service: where its load balancer can be reached."
    )


class ServiceSpec(Type):
    """Pods, ports and addresses of a service."""

    ports: list[ServicePort] = field(
        1,
        keys=("port", "protocol"),
        merge="port",
        doc=(
            "Ports of the service, each pair of port and protocol once. Required unless the "
            "service is headless or of type ExternalName."
        ),
    )
    selector: dict[str, str] = field(
        2,
        atomic=True,
        doc=(
            "Labels of the pods that get the traffic. When empty: the endpoints must be managed "
            "by other means. Ignored for type ExternalName."
        ),
    )
    clusterIP: str = field(
        3,
        doc=(
            "Virtual IP address in the cluster. When empty: the server assigns one. None: a "
            "headless service without address. Once set, it cannot change."
        ),
    )
    clusterIPs: list[str] = field(
        18,
        doc=(
            "Virtual IP addresses in the cluster, at most one per family. The first one equals "
            "clusterIP. When empty: taken from clusterIP or assigned."
        ),
    )
    type: str = field(
        4,
        enum=("ClusterIP", "NodePort", "LoadBalancer", "ExternalName"),
        doc=(
            "ClusterIP: an address in the cluster. NodePort: also a port on every node. "
            "LoadBalancer: also an external load balancer. ExternalName: a DNS alias. Default: "
            "ClusterIP."
        ),
    )
    externalIPs: list[str] = field(
        5,
        doc=(
            "Further IP addresses at which nodes accept traffic for the service. Deprecated. You "
            "must route them to the nodes yourself."
        ),
    )
    sessionAffinity: str = field(
        7,
        enum=("ClientIP", "None"),
        doc=(
            "ClientIP: connections of one client address go to the same pod. None: to any pod. "
            "Default: None."
        ),
    )
    loadBalancerIP: str = field(
        8,
        doc=(
            "Deprecated: IP address that the load balancer is asked to have. Implementations may "
            "ignore it; use their annotations."
        ),
    )
    loadBalancerSourceRanges: list[str] = field(
        9,
        doc=(
            "Networks in CIDR notation whose clients may use the load balancer. When empty: all. "
            "Only for type LoadBalancer."
        ),
    )
    externalName: str = field(
        10,
        doc=(
            "DNS name that the service is an alias for, as a CNAME record. Required for type "
            "ExternalName, otherwise without effect."
        ),
    )
    externalTrafficPolicy: str = field(
        11,
        enum=("Cluster", "Local"),
        doc=(
            "Traffic from outside: Local goes to pods on the same node and keeps the client's "
            "address, Cluster goes to any pod. Default: Cluster. Only for services reachable from "
            "outside."
        ),
    )
    healthCheckNodePort: int32 = field(
        12,
        doc=(
            "Port of every node that says whether the node has pods of the service. Only for "
            "LoadBalancer with Local traffic; when absent, one is assigned."
        ),
    )
    publishNotReadyAddresses: bool = field(
        13,
        doc=(
            "Publish pods that are not ready in DNS and endpoints as if they were. Mostly for "
            "headless services of StatefulSets. Default: false."
        ),
    )
    sessionAffinityConfig: SessionAffinityConfig | None = field(
        14, doc="Details of the session affinity. Not allowed for None."
    )
    ipFamilies: list[str] = field(
        19,
        enum=("IPv4", "IPv6", ""),
        doc=(
            "Families of the service's addresses: IPv4, IPv6 or both, the primary one first. When "
            "empty: assigned. The first cannot change."
        ),
    )
    ipFamilyPolicy: str | None = field(
        17,
        enum=("SingleStack", "PreferDualStack", "RequireDualStack"),
        doc=(
            "SingleStack: one family. PreferDualStack: two if the cluster has two. "
            "RequireDualStack: two, or an error. When absent: SingleStack."
        ),
    )
    allocateLoadBalancerNodePorts: bool | None = field(
        20,
        doc=(
            "Assign node ports to a LoadBalancer service. Default: true. Turning it off does not "
            "release ports that are assigned."
        ),
    )
    loadBalancerClass: str | None = field(
        21,
        doc=(
            "Implementation that serves the load balancer, for example example.com/internal. When "
            "absent: the default one. Only for LoadBalancer; once set, it cannot change."
        ),
    )
    internalTrafficPolicy: str | None = field(
        22,
        enum=("Cluster", "Local"),
        doc=(
            "Traffic from within the cluster: Local goes to pods on the same node only, Cluster "
            "goes to any pod. Default: Cluster."
        ),
    )
    trafficDistribution: str | None = field(
        23,
        doc=(
            "Preference for near pods: PreferSameZone or PreferSameNode. PreferClose is the "
            "deprecated name of PreferSameZone. When absent: none."
        ),
    )


class ServicePort(Type):
    """One port of a service."""

    name: str = field(
        1,
        doc=(
            "Name of the port: a DNS label, unique in the service. Required when the service has "
            "several ports."
        ),
    )
    protocol: str = field(
        2,
        default="TCP",
        enum=("TCP", "UDP", "SCTP"),
        doc="Protocol of the service port: TCP, UDP or SCTP. Default: TCP.",
    )
    appProtocol: str | None = field(
        6,
        doc=(
            "Application protocol of the port, as a hint for implementations: a standard service "
            "name such as http, kubernetes.io/h2c, or a name with your domain."
        ),
    )
    port: int32 = field(
        3,
        always=True,
        required=True,
        doc="Number of the port at the service's address, 1 to 65535.",
    )
    targetPort: IntOrString = field(
        4,
        doc=(
            "Port of the pods: a number, or the name of a container port. Default: the value of "
            "port. Without effect on headless services."
        ),
    )
    nodePort: int32 = field(
        5,
        doc=(
            "Port of every node, for types NodePort and LoadBalancer. When absent: one is "
            "assigned from the cluster's range. Forbidden for ClusterIP."
        ),
    )


class ServiceStatus(Type):
    """Observed state of a service."""

    loadBalancer: LoadBalancerStatus = field(
        1, doc="Addresses of the external load balancer. Empty unless the type is LoadBalancer."
    )
    conditions: list[Condition] = field(
        2,
        keys=("type",),
        merge="type",
        doc=(
            "Conditions of the service, one entry per type. The implementation of the load "
            "balancer sets them."
        ),
    )


class SessionAffinityConfig(Type):
    """Details of the session affinity of a service."""

    clientIP: ClientIPConfig | None = field(
        1, doc="Settings of session affinity by the client's IP address."
    )


class ClientIPConfig(Type):
    """Settings of session affinity by client IP address."""

    timeoutSeconds: int32 | None = field(
        1,
        doc=(
            "Seconds without traffic after which a client may go to another pod, 1 to 86400 (one "
            "day). Default: 10800 (3 hours)."
        ),
    )


class LoadBalancerStatus(Type):
    """Addresses of a load balancer."""

    ingress: list[LoadBalancerIngress] = field(
        1, doc="Addresses at which the load balancer accepts traffic for the service."
    )


class LoadBalancerIngress(Type):
    """One address of a load balancer: an IP address, a host name or both."""

    ip: str = field(
        1, doc="IP address of the load balancer. Empty when it is reached by its host name alone."
    )
    hostname: str = field(
        2, doc="DNS name of the load balancer. Empty when it is reached by its IP address alone."
    )
    ipMode: str | None = field(
        3,
        doc=(
            "VIP: packets arrive with the balancer's address, so nodes handle it themselves. "
            "Proxy: they arrive with the node's or pod's. Needs ip, then default: VIP."
        ),
    )
    ports: list[PortStatus] = field(
        4,
        doc=(
            "State of the ports of the load balancer, one entry per port. The implementation may "
            "leave it out."
        ),
    )


class PortStatus(Type):
    """State of one port of a load balancer."""

    port: int32 = field(
        1, always=True, required=True, doc="Number of the load balancer's port, as in the service."
    )
    protocol: str = field(
        2,
        always=True,
        enum=("TCP", "UDP", "SCTP"),
        required=True,
        doc="Protocol of the load balancer's port: TCP, UDP or SCTP.",
    )
    error: str | None = field(
        3,
        doc=(
            "CamelCase code of the port's problem, with a domain unless it is one of Kubernetes, "
            "at most 316 characters. When absent: none."
        ),
    )


class RangeAllocation(Kind):
    """Which addresses or ports of a range are allocated. Older servers stored it."""

    listed = False

    metadata: ObjectMeta = field(
        1, doc="Standard object's metadata. One object exists for each range."
    )
    range: str = field(
        2, always=True, doc="Range that the data is about, for example 10.0.0.0/24 or 30000-32767."
    )
    data: bytes = field(
        3,
        always=True,
        doc="Bitmap of the range: each allocated address or port is a bit that is set.",
    )
