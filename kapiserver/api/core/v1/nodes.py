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

    podCIDR: str = field(1, doc="The addresses of its pods.")
    podCIDRs: list[str] = field(
        7, set=True, merge="", doc="The addresses of its pods, one network a family."
    )
    providerID: str = field(3, doc="The machine, as its provider names it.")
    unschedulable: bool = field(4, doc="Whether new pods stay away.")
    taints: list[Taint] = field(5, doc="What keeps away those who do not tolerate it.")
    configSource: NodeConfigSource | None = field(6, doc="Not used any more.")
    externalID: str = field(2, doc="Not used any more.")
    podPreemptionPolicy: NodePodPreemptionPolicy | None = field(8, doc="When pods go for others.")


class NodeStatus(Type):
    """What is known of a node."""

    capacity: dict[str, Quantity] = field(1, doc="How much there is.")
    allocatable: dict[str, Quantity] = field(2, doc="How much pods may use.")
    phase: str = field(
        3, enum=("Pending", "Running", "Terminated"), doc="In which phase of its life it is."
    )
    conditions: list[NodeCondition] = field(
        4, keys=("type",), merge="type", doc="What was found out about it."
    )
    addresses: list[NodeAddress] = field(
        5, keys=("type",), merge="type", doc="Where it is reached."
    )
    daemonEndpoints: NodeDaemonEndpoints = field(6, doc="Ports of its daemons.")
    nodeInfo: NodeSystemInfo = field(7, doc="Which machine and which programs.")
    images: list[ContainerImage] = field(8, doc="Images that it has.")
    volumesInUse: list[str] = field(9, doc="Volumes that are mounted.")
    volumesAttached: list[AttachedVolume] = field(10, doc="Volumes that are attached.")
    config: NodeConfigStatus | None = field(11, doc="How it is set up.")
    runtimeHandlers: list[NodeRuntimeHandler] = field(12, doc="Handlers of its container runtime.")
    features: NodeFeatures | None = field(13, doc="What it can.")
    declaredFeatures: list[str] = field(14, doc="Feature gates that the scheduler may count on.")


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

    type: str = field(
        1,
        always=True,
        required=True,
        doc="Hostname, InternalIP, ExternalIP, InternalDNS or ExternalDNS.",
    )
    address: str = field(2, always=True, required=True, doc="The address.")


class NodeSystemInfo(Type):
    """Versions and identifiers of a node."""

    machineID: str = field(1, always=True, required=True, doc="The machine, by the system's id.")
    systemUUID: str = field(2, always=True, required=True, doc="The machine, by its maker's id.")
    bootID: str = field(3, always=True, required=True, doc="Changes with each boot.")
    kernelVersion: str = field(4, always=True, required=True, doc="The kernel.")
    osImage: str = field(5, always=True, required=True, doc="The system.")
    containerRuntimeVersion: str = field(
        6, always=True, required=True, doc="The container runtime."
    )
    kubeletVersion: str = field(7, always=True, required=True, doc="The kubelet.")
    kubeProxyVersion: str = field(8, always=True, required=True, doc="Not used any more.")
    operatingSystem: str = field(9, always=True, required=True, doc="linux or windows.")
    architecture: str = field(10, always=True, required=True, doc="As amd64 or arm64.")
    swap: NodeSwapStatus | None = field(11, doc="How much swap there is.")
    runningInUserNamespace: bool | None = field(12, doc="Whether the kubelet is without root.")


class NodeSwapStatus(Type):
    """Swap of a node."""

    capacity: int64 | None = field(1, doc="How much there is.")


class NodeFeatures(Type):
    """Features of a node's container runtime as a whole."""

    supplementalGroupsPolicy: bool | None = field(
        1, doc="Whether Strict is known for supplementalGroupsPolicy."
    )


class NodeRuntimeHandler(Type):
    """One runtime handler of a node."""

    name: str = field(1, always=True, doc="Its name.")
    features: NodeRuntimeHandlerFeatures | None = field(2, doc="What it can.")


class NodeRuntimeHandlerFeatures(Type):
    """What a runtime handler can do."""

    recursiveReadOnlyMounts: bool | None = field(1, doc="Whether recursive read-only mounts work.")
    userNamespaces: bool | None = field(2, doc="Whether user namespaces work.")


class NodeConfigSource(Type):
    """Where a kubelet's configuration comes from (unused)."""

    configMap: ConfigMapNodeConfigSource | None = field(2, doc="Out of a config map.")


class NodeConfigStatus(Type):
    """Which configuration a kubelet uses (unused)."""

    assigned: NodeConfigSource | None = field(1, doc="What the kubelet will try.")
    active: NodeConfigSource | None = field(2, doc="What the kubelet uses.")
    lastKnownGood: NodeConfigSource | None = field(3, doc="What it goes back to.")
    error: str = field(4, doc="What went wrong.")


class ConfigMapNodeConfigSource(Type):
    """A kubelet configuration in a ConfigMap (unused)."""

    namespace: str = field(1, always=True, required=True, doc="Its namespace.")
    name: str = field(2, always=True, required=True, doc="Its name.")
    uid: str = field(3, doc="Its uid.")
    resourceVersion: str = field(4, doc="The version of the object.")
    kubeletConfigKey: str = field(5, always=True, required=True, doc="The key in the config map.")


class NodeDaemonEndpoints(Type):
    """Ports of the daemons on a node."""

    kubeletEndpoint: DaemonEndpoint = field(1, doc="Where the kubelet listens.")


class NodePodPreemptionPolicy(Type):
    """How a node preempts pods."""

    disableResizePreemption: list[str] = field(
        1, set=True, doc="Whether no pod goes for another that grows."
    )


class DaemonEndpoint(Type):
    """The port of one daemon."""

    Port: int32 = field(1, always=True, required=True, doc="The number of the port.")


class ContainerImage(Type):
    """An image that is on a node."""

    names: list[str] = field(1, always=True, doc="Its names.")
    sizeBytes: int64 = field(2, doc="Its size.")


class AttachedVolume(Type):
    """A volume that is attached to a node."""

    name: str = field(1, always=True, required=True, doc="Its name.")
    devicePath: str = field(2, always=True, required=True, doc="Where the device shows.")


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
