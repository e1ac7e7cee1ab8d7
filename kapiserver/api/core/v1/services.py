"""Service."""

from __future__ import annotations

from kapiserver.api.leaves import IntOrString
from kapiserver.api.meta.v1 import Condition, ObjectMeta
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
    clusterIPs: list[str] = field(18)
    type: str = field(
        4,
        enum=("ClusterIP", "NodePort", "LoadBalancer", "ExternalName"),
        doc="From where the service can be reached.",
    )
    externalIPs: list[str] = field(5)
    sessionAffinity: str = field(7, enum=("ClientIP", "None"))
    loadBalancerIP: str = field(8)
    loadBalancerSourceRanges: list[str] = field(9)
    externalName: str = field(10)
    externalTrafficPolicy: str = field(11, enum=("Cluster", "Local"))
    healthCheckNodePort: int32 = field(12)
    publishNotReadyAddresses: bool = field(13)
    sessionAffinityConfig: SessionAffinityConfig | None = field(14)
    ipFamilies: list[str] = field(19, enum=("IPv4", "IPv6", ""))
    ipFamilyPolicy: str | None = field(
        17, enum=("SingleStack", "PreferDualStack", "RequireDualStack")
    )
    allocateLoadBalancerNodePorts: bool | None = field(20)
    loadBalancerClass: str | None = field(21)
    internalTrafficPolicy: str | None = field(22, enum=("Cluster", "Local"))
    trafficDistribution: str | None = field(23)


class ServicePort(Type):
    """One port of a service."""

    name: str = field(1)
    protocol: str = field(2, default="TCP", enum=("TCP", "UDP", "SCTP"))
    appProtocol: str | None = field(6)
    port: int32 = field(3, always=True, required=True)
    targetPort: IntOrString = field(4)
    nodePort: int32 = field(5)


class ServiceStatus(Type):
    """What is known of a service."""

    loadBalancer: LoadBalancerStatus = field(1)
    conditions: list[Condition] = field(2, keys=("type",), merge="type")


class SessionAffinityConfig(Type):
    """How a client stays with one pod."""

    clientIP: ClientIPConfig | None = field(1)


class ClientIPConfig(Type):
    """For how long a client address stays with one pod."""

    timeoutSeconds: int32 | None = field(1)


class LoadBalancerStatus(Type):
    """Where a load balancer can be reached."""

    ingress: list[LoadBalancerIngress] = field(1)


class LoadBalancerIngress(Type):
    """One entry of a load balancer."""

    ip: str = field(1)
    hostname: str = field(2)
    ipMode: str | None = field(3)
    ports: list[PortStatus] = field(4)


class PortStatus(Type):
    """What is known of one port of a load balancer."""

    port: int32 = field(1, always=True, required=True)
    protocol: str = field(2, always=True, enum=("TCP", "UDP", "SCTP"), required=True)
    error: str | None = field(3)


class RangeAllocation(Kind):
    """Which addresses or ports of a range are taken."""

    listed = False

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    range: str = field(2, always=True)
    data: bytes = field(3, always=True)
