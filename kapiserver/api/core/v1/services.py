"""Service."""

from __future__ import annotations

from kapiserver.api.meta.v1 import Condition, ObjectMeta
from kapiserver.api.scalar_types import IntOrString
from kapiserver.api.types import Kind, Type, field, int32


class Service(Kind):
    """A stable address and name for a set of pods."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: ServiceSpec = field(2, doc="The desired state.")
    status: ServiceStatus = field(3, doc="The observed state.")


class ServiceSpec(Type):
    """Ports, pods and reach of a service."""

    ports: list[ServicePort] = field(
        1, keys=("port", "protocol"), merge="port", doc="Ports the service has."
    )
    selector: dict[str, str] = field(2, atomic=True, doc="Labels of the pods behind the service.")
    clusterIP: str = field(3, doc="The service's address in the cluster.")
    clusterIPs: list[str] = field(18, doc="Its addresses, one a family.")
    type: str = field(
        4,
        enum=("ClusterIP", "NodePort", "LoadBalancer", "ExternalName"),
        doc="From where the service can be reached.",
    )
    externalIPs: list[str] = field(5, doc="Further addresses at which nodes take its traffic.")
    sessionAffinity: str = field(7, enum=("ClientIP", "None"), doc="None or ClientIP.")
    loadBalancerIP: str = field(8, doc="Deprecated: the address asked for.")
    loadBalancerSourceRanges: list[str] = field(9, doc="Networks that may come in.")
    externalName: str = field(10, doc="The name it stands for.")
    externalTrafficPolicy: str = field(11, enum=("Cluster", "Local"), doc="Cluster or Local.")
    healthCheckNodePort: int32 = field(12, doc="Where nodes say whether they have a pod of it.")
    publishNotReadyAddresses: bool = field(13, doc="Whether pods count that are not ready.")
    sessionAffinityConfig: SessionAffinityConfig | None = field(
        14, doc="How clients keep their server."
    )
    ipFamilies: list[str] = field(19, enum=("IPv4", "IPv6", ""), doc="IPv4, IPv6 or both.")
    ipFamilyPolicy: str | None = field(
        17,
        enum=("SingleStack", "PreferDualStack", "RequireDualStack"),
        doc="SingleStack, PreferDualStack or RequireDualStack.",
    )
    allocateLoadBalancerNodePorts: bool | None = field(
        20, doc="Whether a load balancer gets node ports."
    )
    loadBalancerClass: str | None = field(21, doc="Which load balancers.")
    internalTrafficPolicy: str | None = field(
        22, enum=("Cluster", "Local"), doc="Cluster or Local."
    )
    trafficDistribution: str | None = field(23, doc="PreferSameZone or PreferSameNode.")


class ServicePort(Type):
    """One port of a service."""

    name: str = field(1, doc="Its name.")
    protocol: str = field(2, default="TCP", enum=("TCP", "UDP", "SCTP"), doc="TCP, UDP or SCTP.")
    appProtocol: str | None = field(6, doc="What is spoken over it, as http.")
    port: int32 = field(3, always=True, required=True, doc="The number of the port.")
    targetPort: IntOrString = field(4, doc="The port of its pods, by number or name.")
    nodePort: int32 = field(5, doc="The port of every node.")


class ServiceStatus(Type):
    """What is known of a service."""

    loadBalancer: LoadBalancerStatus = field(1, doc="How the load balancer is reached.")
    conditions: list[Condition] = field(
        2, keys=("type",), merge="type", doc="What was found out about it."
    )


class SessionAffinityConfig(Type):
    """How a client stays with one pod."""

    clientIP: ClientIPConfig | None = field(1, doc="By the client's address.")


class ClientIPConfig(Type):
    """For how long a client address stays with one pod."""

    timeoutSeconds: int32 | None = field(1, doc="How long a client keeps its server.")


class LoadBalancerStatus(Type):
    """Where a load balancer can be reached."""

    ingress: list[LoadBalancerIngress] = field(1, doc="Where it is reached.")


class LoadBalancerIngress(Type):
    """One entry of a load balancer."""

    ip: str = field(1, doc="An IP address.")
    hostname: str = field(2, doc="A host name.")
    ipMode: str | None = field(3, doc="VIP or Proxy.")
    ports: list[PortStatus] = field(4, doc="The ports.")


class PortStatus(Type):
    """What is known of one port of a load balancer."""

    port: int32 = field(1, always=True, required=True, doc="The number of the port.")
    protocol: str = field(
        2, always=True, enum=("TCP", "UDP", "SCTP"), required=True, doc="TCP, UDP or SCTP."
    )
    error: str | None = field(3, doc="What went wrong.")


class RangeAllocation(Kind):
    """Which addresses or ports of a range are taken."""

    listed = False

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    range: str = field(2, always=True)
    data: bytes = field(3, always=True)
