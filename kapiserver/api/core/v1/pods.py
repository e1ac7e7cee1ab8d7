"""Pod and the template it is made from."""

from __future__ import annotations

from kapiserver.api.core.v1.containers import Container, EphemeralContainer, ResourceRequirements
from kapiserver.api.core.v1.pod_status import PodStatus
from kapiserver.api.core.v1.references import LocalObjectReference
from kapiserver.api.core.v1.scheduling import Affinity, Toleration, TopologySpreadConstraint
from kapiserver.api.core.v1.security import PodSecurityContext
from kapiserver.api.core.v1.volumes import Volume
from kapiserver.api.leaves import Quantity
from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.types import Kind, Type, field, int32, int64


class Pod(Kind):
    """Containers that run together on one node."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: PodSpec = field(2, doc="The desired state.")
    status: PodStatus = field(3, doc="The observed state.")


class PodSpec(Type):
    """What a pod should run, where and how."""

    volumes: list[Volume] = field(
        1,
        keys=("name",),
        merge="name",
        patch="retainKeys",
        doc="Volumes that containers may mount.",
    )
    initContainers: list[Container] = field(
        20,
        keys=("name",),
        merge="name",
        doc="Containers that run to their end, in turn, before the others.",
    )
    containers: list[Container] = field(
        2,
        always=True,
        keys=("name",),
        merge="name",
        doc="Containers of the pod; at least one.",
        required=True,
    )
    ephemeralContainers: list[EphemeralContainer] = field(34, keys=("name",), merge="name")
    restartPolicy: str = field(
        3, enum=("Always", "OnFailure", "Never"), doc="When ended containers start again."
    )
    terminationGracePeriodSeconds: int64 | None = field(4)
    activeDeadlineSeconds: int64 | None = field(5)
    dnsPolicy: str = field(6, enum=("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"))
    nodeSelector: dict[str, str] = field(7, atomic=True, doc="Labels a node must have.")
    serviceAccountName: str = field(8, doc="The identity of the pod's processes.")
    serviceAccount: str = field(9)
    automountServiceAccountToken: bool | None = field(21)
    nodeName: str = field(10, doc="The node the pod is on.")
    hostNetwork: bool = field(11)
    hostPID: bool = field(12)
    hostIPC: bool = field(13)
    shareProcessNamespace: bool | None = field(27)
    securityContext: PodSecurityContext | None = field(14)
    imagePullSecrets: list[LocalObjectReference] = field(15, keys=("name",), merge="name")
    hostname: str = field(16)
    subdomain: str = field(17)
    affinity: Affinity | None = field(18)
    schedulerName: str = field(19)
    tolerations: list[Toleration] = field(22, doc="Taints that do not keep the pod off.")
    hostAliases: list[HostAlias] = field(23, keys=("ip",), merge="ip")
    priorityClassName: str = field(24)
    priority: int32 | None = field(25)
    dnsConfig: PodDNSConfig | None = field(26)
    readinessGates: list[PodReadinessGate] = field(28)
    runtimeClassName: str | None = field(29)
    enableServiceLinks: bool | None = field(30)
    preemptionPolicy: str | None = field(31, enum=("PreemptLowerPriority", "Never"))
    overhead: dict[str, Quantity] = field(32)
    topologySpreadConstraints: list[TopologySpreadConstraint] = field(
        33, keys=("topologyKey", "whenUnsatisfiable"), merge="topologyKey"
    )
    setHostnameAsFQDN: bool | None = field(35)
    os: PodOS | None = field(36)
    hostUsers: bool | None = field(37)
    schedulingGates: list[PodSchedulingGate] = field(38, keys=("name",), merge="name")
    resourceClaims: list[PodResourceClaim] = field(
        39, keys=("name",), merge="name", patch="retainKeys"
    )
    resources: ResourceRequirements | None = field(40)
    hostnameOverride: str | None = field(41)
    schedulingGroup: PodSchedulingGroup | None = field(43)
    evictionResponders: list[EvictionResponder] = field(44, keys=("name",), merge="name")


class PodTemplate(Kind):
    """A pod's description kept for making copies."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    template: PodTemplateSpec = field(2)


class PodTemplateSpec(Type):
    """What the pods made from a template look like."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: PodSpec = field(2, doc="The desired state.")


class PodDNSConfig(Type):
    """Name resolution inside a pod."""

    nameservers: list[str] = field(1)
    searches: list[str] = field(2)
    options: list[PodDNSConfigOption] = field(3)


class PodDNSConfigOption(Type):
    """One resolver option."""

    name: str = field(1)
    value: str | None = field(2)


class PodOS(Type):
    """The operating system a pod is for."""

    name: str = field(1, always=True, required=True)


class PodReadinessGate(Type):
    """A condition that must also hold before the pod counts as ready."""

    conditionType: str = field(1, always=True, required=True)


class PodSchedulingGate(Type):
    """Holds back scheduling until removed."""

    name: str = field(1, always=True, required=True)


class PodSchedulingGroup(Type):
    """The group a pod is scheduled with."""

    podGroupName: str | None = field(1)


class PodResourceClaim(Type):
    """A resource claim that the pod's containers may use."""

    name: str = field(1, always=True, required=True)
    resourceClaimName: str | None = field(3)
    resourceClaimTemplateName: str | None = field(4)


class EvictionResponder(Type):
    """Who answers when a pod is to be evicted."""

    atomic = True

    name: str = field(1, always=True, required=True)
    priority: int32 | None = field(2, always=True, required=True)


class HostAlias(Type):
    """A line of the pod's hosts file."""

    ip: str = field(1, always=True, required=True)
    hostnames: list[str] = field(2)
