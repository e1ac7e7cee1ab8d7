"""Node: a machine that runs pods, with what its kubelet reports."""

from __future__ import annotations

from kapiserver.api.core.v1.scheduling import Taint
from kapiserver.api.meta.v1 import ObjectMeta, OwnerReference
from kapiserver.api.scalar_types import Quantity, Time
from kapiserver.api.types import Kind, Type, field, int32, int64


class Node(Kind):
    """A machine of the cluster that runs pods."""

    metadata: ObjectMeta = field(
        1,
        doc=(
            "Standard object's metadata. Nodes have no namespace; schedulers and affinity rules "
            "select them by their labels."
        ),
    )
    spec: NodeSpec = field(
        2,
        doc=(
            "Desired state of the node: its taints, its pod networks and whether it accepts new "
            "pods."
        ),
    )
    status: NodeStatus = field(
        3,
        doc=(
            "Observed state of the node: its resources, conditions and addresses. The kubelet "
            "reports it."
        ),
    )


class NodeSpec(Type):
    """Desired state of a node."""

    podCIDR: str = field(
        1,
        doc=(
            "Network of the node's pods in CIDR notation. The first of podCIDRs, with which it "
            "must agree."
        ),
    )
    podCIDRs: list[str] = field(
        7,
        set=True,
        merge="",
        doc=(
            "Networks of the node's pods in CIDR notation, at most one per family. Once set, they "
            "cannot change."
        ),
    )
    providerID: str = field(
        3,
        doc=(
            "Identifier of the machine at its cloud provider, as PROVIDER://ID. Once set, it "
            "cannot change."
        ),
    )
    unschedulable: bool = field(
        4,
        doc=(
            "Whether schedulers place no new pods on the node, as after kubectl cordon. Running "
            "pods stay. Default: false."
        ),
    )
    taints: list[Taint] = field(
        5,
        doc=(
            "Taints that keep away pods without a matching toleration. Each pair of key and "
            "effect occurs once."
        ),
    )
    configSource: NodeConfigSource | None = field(
        6,
        doc=(
            "Removed feature: a ConfigMap with the kubelet's configuration. The server drops it "
            "from nodes that do not have it."
        ),
    )
    externalID: str = field(
        2, doc="Deprecated and without effect: an identifier of the machine. It cannot change."
    )
    podPreemptionPolicy: NodePodPreemptionPolicy | None = field(
        8, doc="How pods on this node are preempted for others. Belongs to an alpha feature."
    )


class NodeStatus(Type):
    """Observed state of a node, as its kubelet reports it."""

    capacity: dict[str, Quantity] = field(
        1,
        doc=(
            "Total resources of the node, for example cpu, memory and pods. Counts of extended "
            "resources are whole numbers."
        ),
    )
    allocatable: dict[str, Quantity] = field(
        2,
        doc=(
            "Resources that pods can use: capacity minus what the system reserves. Default: "
            "capacity."
        ),
    )
    phase: str = field(
        3,
        enum=("Pending", "Running", "Terminated"),
        doc="Deprecated and never set: Pending, Running or Terminated.",
    )
    conditions: list[NodeCondition] = field(
        4,
        keys=("type",),
        merge="type",
        doc=(
            "Conditions of the node, one entry per type, for example Ready, MemoryPressure and "
            "DiskPressure."
        ),
    )
    addresses: list[NodeAddress] = field(
        5,
        keys=("type",),
        merge="type",
        doc=(
            "Addresses of the node, each with its type. In a merge patch, entries are matched by "
            "type."
        ),
    )
    daemonEndpoints: NodeDaemonEndpoints = field(
        6, doc="Ports on which daemons of the node listen."
    )
    nodeInfo: NodeSystemInfo = field(
        7, doc="Identifiers of the machine and versions of its software."
    )
    images: list[ContainerImage] = field(
        8, doc="Container images on the node, the largest first. The kubelet may list only some."
    )
    volumesInUse: list[str] = field(
        9,
        doc=(
            "Attachable volumes that the node still mounts or is about to mount. They must not be "
            "detached."
        ),
    )
    volumesAttached: list[AttachedVolume] = field(
        10, doc="Volumes that the attach controller has attached to the node."
    )
    config: NodeConfigStatus | None = field(
        11,
        doc=(
            "Removed feature: the state of the kubelet's configuration from a ConfigMap. The "
            "server drops it from nodes that do not have it."
        ),
    )
    runtimeHandlers: list[NodeRuntimeHandler] = field(
        12,
        doc=(
            "Handlers of the node's container runtime, which RuntimeClass objects name, with "
            "their features."
        ),
    )
    features: NodeFeatures | None = field(
        13, doc="Features that the node's container runtime implements for all handlers."
    )
    declaredFeatures: list[str] = field(
        14,
        doc=(
            "Features of the kubelet that pods may need and that the scheduler takes into "
            "account, by feature gate."
        ),
    )


class NodeCondition(Type):
    """One aspect of a node's state."""

    type: str = field(
        1,
        always=True,
        doc=(
            "Aspect of the node that the condition describes: Ready, MemoryPressure, "
            "DiskPressure, PIDPressure, NetworkUnavailable or another."
        ),
        required=True,
    )
    status: str = field(
        2,
        always=True,
        doc=(
            "Whether the node condition holds: True, False or Unknown. Unknown for Ready: the "
            "kubelet does not report any more."
        ),
        required=True,
    )
    lastHeartbeatTime: Time = field(
        3, doc="When the kubelet last reported the condition, whether it changed or not."
    )
    lastTransitionTime: Time = field(4, doc="When the status of the node condition last changed.")
    reason: str = field(
        5, doc="CamelCase code of the node condition's last change, for example KubeletReady."
    )
    message: str = field(6, doc="Human-readable explanation of the node condition's last change.")


class NodeAddress(Type):
    """One address of a node."""

    type: str = field(
        1,
        always=True,
        required=True,
        doc="Kind of the address: Hostname, InternalIP, ExternalIP, InternalDNS or ExternalDNS.",
    )
    address: str = field(
        2,
        always=True,
        required=True,
        doc="IP address or host name of the node, depending on the type.",
    )


class NodeSystemInfo(Type):
    """Identifiers of a node's machine and versions of its software."""

    machineID: str = field(
        1,
        always=True,
        required=True,
        doc=(
            "Identifier of the installed system, on Linux from /etc/machine-id. Unique in the "
            "cluster."
        ),
    )
    systemUUID: str = field(
        2,
        always=True,
        required=True,
        doc="UUID of the hardware, from its firmware. Prefer machineID to identify a machine.",
    )
    bootID: str = field(
        3,
        always=True,
        required=True,
        doc="Identifier of the current boot. It changes whenever the machine restarts.",
    )
    kernelVersion: str = field(
        4, always=True, required=True, doc="Release of the kernel, as uname -r prints it."
    )
    osImage: str = field(
        5,
        always=True,
        required=True,
        doc="Name of the operating system, for example Debian GNU/Linux 13 (trixie).",
    )
    containerRuntimeVersion: str = field(
        6,
        always=True,
        required=True,
        doc="Container runtime with its version, for example containerd://2.1.0.",
    )
    kubeletVersion: str = field(
        7, always=True, required=True, doc="Version of the kubelet, for example v1.37.0."
    )
    kubeProxyVersion: str = field(
        8,
        always=True,
        required=True,
        doc=(
            "Deprecated: the version of kube-proxy is unknown to the kubelet, so do not rely on it."
        ),
    )
    operatingSystem: str = field(
        9, always=True, required=True, doc="Operating system of the node: linux or windows."
    )
    architecture: str = field(
        10,
        always=True,
        required=True,
        doc="Processor architecture of the node, for example amd64 or arm64.",
    )
    swap: NodeSwapStatus | None = field(
        11, doc="Swap space of the node. Absent when the kubelet does not report it."
    )
    runningInUserNamespace: bool | None = field(
        12, doc="Whether the kubelet runs in a user namespace, that is, without root on the host."
    )


class NodeSwapStatus(Type):
    """Swap space of a node."""

    capacity: int64 | None = field(1, doc="Total swap space of the node in bytes, greater than 0.")


class NodeFeatures(Type):
    """Features that a node's container runtime implements for all handlers."""

    supplementalGroupsPolicy: bool | None = field(
        1,
        doc=(
            "Whether the runtime supports supplementalGroupsPolicy in the security context of "
            "pods and reports users in container statuses."
        ),
    )


class NodeRuntimeHandler(Type):
    """One handler of a node's container runtime."""

    name: str = field(
        1,
        always=True,
        doc="Name of the handler, which a RuntimeClass refers to. Empty for the default handler.",
    )
    features: NodeRuntimeHandlerFeatures | None = field(
        2, doc="Features of this handler. Absent when the runtime does not report them."
    )


class NodeRuntimeHandlerFeatures(Type):
    """Features that one runtime handler supports."""

    recursiveReadOnlyMounts: bool | None = field(
        1, doc="Whether the handler supports recursiveReadOnly in volume mounts."
    )
    userNamespaces: bool | None = field(
        2, doc="Whether the handler supports pods with user namespaces (hostUsers: false)."
    )


class NodeConfigSource(Type):
    """The source of a kubelet's configuration. The feature is removed."""

    configMap: ConfigMapNodeConfigSource | None = field(
        2, doc="ConfigMap with the kubelet's configuration. It is the only kind of source."
    )


class NodeConfigStatus(Type):
    """State of the configuration that a kubelet took from a ConfigMap. The feature is removed."""

    assigned: NodeConfigSource | None = field(
        1, doc="Configuration that is assigned to the kubelet, stored on the node's disk."
    )
    active: NodeConfigSource | None = field(
        2, doc="Configuration that the kubelet uses. When absent: its local one."
    )
    lastKnownGood: NodeConfigSource | None = field(
        3, doc="Configuration that the kubelet returns to when the assigned one fails."
    )
    error: str = field(4, doc="Problem with the assigned configuration. Empty when there is none.")


class ConfigMapNodeConfigSource(Type):
    """A ConfigMap with a kubelet's configuration. The feature is removed."""

    namespace: str = field(
        1,
        always=True,
        required=True,
        doc="Namespace of the ConfigMap with the kubelet's configuration.",
    )
    name: str = field(
        2, always=True, required=True, doc="Name of the ConfigMap with the kubelet's configuration."
    )
    uid: str = field(
        3, doc="UID of the ConfigMap. Forbidden in the spec and required in the status."
    )
    resourceVersion: str = field(
        4,
        doc="Resource version of the ConfigMap. Forbidden in the spec and required in the status.",
    )
    kubeletConfigKey: str = field(
        5,
        always=True,
        required=True,
        doc="Key of the ConfigMap whose value is the kubelet's configuration.",
    )


class NodeDaemonEndpoints(Type):
    """Ports on which the daemons of a node listen."""

    kubeletEndpoint: DaemonEndpoint = field(
        1, doc="Port of the kubelet's HTTPS server, which serves logs, exec and port forwarding."
    )


class NodePodPreemptionPolicy(Type):
    """How pods on a node are preempted for others."""

    disableResizePreemption: list[str] = field(
        1,
        set=True,
        doc=(
            "Label keys, at most 20, of the components that forbid preempting pods on this node "
            "for a pod that is resized. When empty: allowed."
        ),
    )


class DaemonEndpoint(Type):
    """The port of a daemon on a node."""

    Port: int32 = field(
        1,
        always=True,
        required=True,
        doc=(
            "Number of the port, for example 10250 for the kubelet. The name begins with an "
            "upper-case letter in JSON too."
        ),
    )


class ContainerImage(Type):
    """A container image on a node."""

    names: list[str] = field(
        1,
        always=True,
        doc="Names of the image by tag and by digest. The kubelet may list only some.",
    )
    sizeBytes: int64 = field(2, doc="Size of the image in bytes.")


class AttachedVolume(Type):
    """A volume that is attached to a node."""

    name: str = field(
        1,
        always=True,
        required=True,
        doc=(
            "Unique name of the attached volume: the plugin's name followed by the plugin's own "
            "name for the volume."
        ),
    )
    devicePath: str = field(
        2,
        always=True,
        required=True,
        doc="Path on the node at which the volume's device should be.",
    )


class AvoidPods(Type):
    """Pods that a node should not get; value of an annotation that is no longer used."""

    preferAvoidPods: list[PreferAvoidPodsEntry] = field(
        1, doc="Signatures of pods that the scheduler should rather place elsewhere."
    )


class PreferAvoidPodsEntry(Type):
    """One kind of pods that a node should not get, and why."""

    podSignature: PodSignature = field(1, doc="Property by which the pods are recognized.")
    evictionTime: Time = field(2, doc="When a pod of this kind was evicted from the node.")
    reason: str = field(3, doc="CamelCase code of why the pods should avoid the node.")
    message: str = field(4, doc="Human-readable explanation of why the pods should avoid the node.")


class PodSignature(Type):
    """A property by which pods that a node should not get are recognized."""

    podController: OwnerReference | None = field(1, doc="Controller that the pods have in common.")
