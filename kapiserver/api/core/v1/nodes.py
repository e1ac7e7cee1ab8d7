"""Node."""

from __future__ import annotations

from kapiserver.api.core.v1.scheduling import Taint
from kapiserver.api.leaves import Quantity, Time
from kapiserver.api.meta.v1 import ObjectMeta, OwnerReference
from kapiserver.api.types import Kind, Type, field, int32, int64


class Node(Kind):
    """A machine that runs pods."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: NodeSpec = field(2, doc="The desired state.")
    status: NodeStatus = field(3, doc="The observed state.")


class NodeSpec(Type):
    """How a node is used."""

    podCIDR: str = field(1)
    podCIDRs: list[str] = field(7, set=True, merge="")
    providerID: str = field(3)
    unschedulable: bool = field(4)
    taints: list[Taint] = field(5)
    configSource: NodeConfigSource | None = field(6)
    externalID: str = field(2)
    podPreemptionPolicy: NodePodPreemptionPolicy | None = field(8)


class NodeStatus(Type):
    """What is known of a node."""

    capacity: dict[str, Quantity] = field(1)
    allocatable: dict[str, Quantity] = field(2)
    phase: str = field(3, enum=("Pending", "Running", "Terminated"))
    conditions: list[NodeCondition] = field(4, keys=("type",), merge="type")
    addresses: list[NodeAddress] = field(5, keys=("type",), merge="type")
    daemonEndpoints: NodeDaemonEndpoints = field(6)
    nodeInfo: NodeSystemInfo = field(7)
    images: list[ContainerImage] = field(8)
    volumesInUse: list[str] = field(9)
    volumesAttached: list[AttachedVolume] = field(10)
    config: NodeConfigStatus | None = field(11)
    runtimeHandlers: list[NodeRuntimeHandler] = field(12)
    features: NodeFeatures | None = field(13)
    declaredFeatures: list[str] = field(14)


class NodeCondition(Type):
    """One finding about a node."""

    type: str = field(1, always=True, doc="What the finding is about.", required=True)
    status: str = field(2, always=True, doc="True, False or Unknown.", required=True)
    lastHeartbeatTime: Time = field(3, doc="When it was last reported.")
    lastTransitionTime: Time = field(4, doc="When the status last changed.")
    reason: str = field(5, doc="Why, in one word for programs.")
    message: str = field(6, doc="Why, for people.")


class NodeAddress(Type):
    """One way to reach a node."""

    type: str = field(1, always=True, required=True)
    address: str = field(2, always=True, required=True)


class NodeSystemInfo(Type):
    """Versions and identifiers of a node."""

    machineID: str = field(1, always=True, required=True)
    systemUUID: str = field(2, always=True, required=True)
    bootID: str = field(3, always=True, required=True)
    kernelVersion: str = field(4, always=True, required=True)
    osImage: str = field(5, always=True, required=True)
    containerRuntimeVersion: str = field(6, always=True, required=True)
    kubeletVersion: str = field(7, always=True, required=True)
    kubeProxyVersion: str = field(8, always=True, required=True)
    operatingSystem: str = field(9, always=True, required=True)
    architecture: str = field(10, always=True, required=True)
    swap: NodeSwapStatus | None = field(11)


class NodeSwapStatus(Type):
    """Swap of a node."""

    capacity: int64 | None = field(1)


class NodeFeatures(Type):
    """Features of a node's container runtime as a whole."""

    supplementalGroupsPolicy: bool | None = field(1)


class NodeRuntimeHandler(Type):
    """One runtime handler of a node."""

    name: str = field(1, always=True)
    features: NodeRuntimeHandlerFeatures | None = field(2)


class NodeRuntimeHandlerFeatures(Type):
    """What a runtime handler can do."""

    recursiveReadOnlyMounts: bool | None = field(1)
    userNamespaces: bool | None = field(2)


class NodeConfigSource(Type):
    """Where a kubelet's configuration comes from (unused)."""

    configMap: ConfigMapNodeConfigSource | None = field(2)


class NodeConfigStatus(Type):
    """Which configuration a kubelet uses (unused)."""

    assigned: NodeConfigSource | None = field(1)
    active: NodeConfigSource | None = field(2)
    lastKnownGood: NodeConfigSource | None = field(3)
    error: str = field(4)


class ConfigMapNodeConfigSource(Type):
    """A kubelet configuration in a ConfigMap (unused)."""

    namespace: str = field(1, always=True, required=True)
    name: str = field(2, always=True, required=True)
    uid: str = field(3)
    resourceVersion: str = field(4)
    kubeletConfigKey: str = field(5, always=True, required=True)


class NodeDaemonEndpoints(Type):
    """Ports of the daemons on a node."""

    kubeletEndpoint: DaemonEndpoint = field(1)


class NodePodPreemptionPolicy(Type):
    """How a node preempts pods."""

    disableResizePreemption: list[str] = field(1, set=True)


class DaemonEndpoint(Type):
    """The port of one daemon."""

    Port: int32 = field(1, always=True, required=True)


class ContainerImage(Type):
    """An image that is on a node."""

    names: list[str] = field(1, always=True)
    sizeBytes: int64 = field(2)


class AttachedVolume(Type):
    """A volume that is attached to a node."""

    name: str = field(1, always=True, required=True)
    devicePath: str = field(2, always=True, required=True)


class AvoidPods(Type):
    """Pods that a node should not get."""

    preferAvoidPods: list[PreferAvoidPodsEntry] = field(1)


class PreferAvoidPodsEntry(Type):
    """One kind of pod a node should not get, and why."""

    podSignature: PodSignature = field(1)
    evictionTime: Time = field(2)
    reason: str = field(3)
    message: str = field(4)


class PodSignature(Type):
    """What pods have in common that a node should avoid."""

    podController: OwnerReference | None = field(1)
