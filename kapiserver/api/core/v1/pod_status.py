"""What the kubelet says of a pod and its containers."""

from __future__ import annotations

from kapiserver.api.core.v1.containers import ResourceRequirements
from kapiserver.api.leaves import Quantity, Time
from kapiserver.api.types import Type, field, int32, int64


class PodStatus(Type):
    """What is known of a running pod."""

    observedGeneration: int64 = field(17)
    phase: str = field(
        1,
        enum=("Pending", "Running", "Succeeded", "Failed", "Unknown"),
        doc="Where the pod is in its life.",
    )
    conditions: list[PodCondition] = field(2, keys=("type",), merge="type")
    message: str = field(3)
    reason: str = field(4)
    nominatedNodeName: str = field(11)
    hostIP: str = field(5)
    hostIPs: list[HostIP] = field(16, merge="ip")
    podIP: str = field(6)
    podIPs: list[PodIP] = field(12, keys=("ip",), merge="ip")
    startTime: Time | None = field(7)
    initContainerStatuses: list[ContainerStatus] = field(10)
    containerStatuses: list[ContainerStatus] = field(8)
    qosClass: str = field(9, enum=("Guaranteed", "Burstable", "BestEffort"))
    ephemeralContainerStatuses: list[ContainerStatus] = field(13)
    resize: str = field(14)
    resourceClaimStatuses: list[PodResourceClaimStatus] = field(
        15, keys=("name",), merge="name", patch="retainKeys"
    )
    extendedResourceClaimStatus: PodExtendedResourceClaimStatus | None = field(18)
    allocatedResources: dict[str, Quantity] = field(19)
    resources: ResourceRequirements | None = field(20)
    nodeAllocatableResourceClaimStatuses: list[NodeAllocatableResourceClaimStatus] = field(
        21, keys=("resourceClaimName",), merge="resourceClaimName"
    )
    volumeHealth: list[PodVolumeHealth] = field(22, keys=("name",))


class PodCondition(Type):
    """One finding about a pod."""

    type: str = field(1, always=True, doc="What the finding is about.", required=True)
    observedGeneration: int64 = field(7, doc="The generation this was found for.")
    status: str = field(2, always=True, doc="True, False or Unknown.", required=True)
    lastProbeTime: Time = field(3, doc="When it was last looked at.")
    lastTransitionTime: Time = field(4, doc="When the status last changed.")
    reason: str = field(5, doc="Why, in one word for programs.")
    message: str = field(6, doc="Why, for people.")


class PodIP(Type):
    """One address of a pod."""

    ip: str = field(1, always=True, required=True)


class HostIP(Type):
    """One address of the pod's node."""

    ip: str = field(1, always=True, required=True)


class PodResourceClaimStatus(Type):
    """The claim made for one entry of the pod's resource claims."""

    name: str = field(1, always=True, required=True)
    resourceClaimName: str | None = field(2)


class PodExtendedResourceClaimStatus(Type):
    """The claim made for the pod's extended resources."""

    requestMappings: list[ContainerExtendedResourceRequest] = field(1, always=True, required=True)
    resourceClaimName: str = field(2, always=True, required=True)


class ContainerExtendedResourceRequest(Type):
    """Which request of a claim satisfies a container's extended resource."""

    containerName: str = field(1, always=True, required=True)
    resourceName: str = field(2, always=True, required=True)
    requestName: str = field(3, always=True, required=True)


class NodeAllocatableResourceClaimStatus(Type):
    """What a claim takes of a node's allocatable resources."""

    resourceClaimName: str = field(1, always=True, required=True)
    containers: list[str] = field(2, set=True)
    mapping: list[NodeAllocatableMappedResources] = field(4, keys=("name",), merge="name")
    overhead: list[NodeAllocatableOverheadResources] = field(5, keys=("name",), merge="name")


class NodeAllocatableMappedResources(Type):
    """Node resources that a claimed device stands for."""

    name: str = field(1, always=True, required=True)
    quantity: Quantity | None = field(2, always=True, required=True)


class NodeAllocatableOverheadResources(Type):
    """Node resources a claimed device needs in addition."""

    name: str = field(1, always=True, required=True)
    perPod: Quantity | None = field(2)
    perContainer: Quantity | None = field(3)


class PodVolumeHealth(Type):
    """Health of one of the pod's volumes."""

    name: str = field(1, always=True, required=True)
    healthConditions: list[VolumeHealthCondition] = field(
        2, keys=("status", "reason"), merge="status"
    )
    lastTransitionTime: Time = field(3)


class VolumeHealthCondition(Type):
    """One finding about a volume's health."""

    status: str = field(
        1,
        always=True,
        required=True,
        enum=("Inaccessible", "DataLoss", "Degraded"),
        doc="True, False or Unknown.",
    )
    reason: str = field(2, always=True, required=True, doc="Why, in one word for programs.")
    message: str = field(3, doc="Why, for people.")


class VolumeHealthStatus(Type):
    """What is known of a volume's health."""

    healthConditions: list[VolumeHealthCondition] = field(
        1, keys=("status", "reason"), merge="status"
    )
    lastTransitionTime: Time = field(2)


class ContainerStatus(Type):
    """What is known of one container."""

    name: str = field(1, always=True, required=True)
    state: ContainerState = field(2)
    lastState: ContainerState = field(3)
    ready: bool = field(4, always=True, required=True)
    restartCount: int32 = field(5, always=True, required=True)
    image: str = field(6, always=True, required=True)
    imageID: str = field(7, always=True, required=True)
    containerID: str = field(8)
    started: bool | None = field(9)
    allocatedResources: dict[str, Quantity] = field(10)
    resources: ResourceRequirements | None = field(11)
    volumeMounts: list[VolumeMountStatus] = field(12, keys=("mountPath",), merge="mountPath")
    user: ContainerUser | None = field(13)
    allocatedResourcesStatus: list[ResourceStatus] = field(14, keys=("name",), merge="name")
    stopSignal: str | None = field(
        15,
        enum=(
            "SIGABRT",
            "SIGALRM",
            "SIGBUS",
            "SIGCHLD",
            "SIGCLD",
            "SIGCONT",
            "SIGFPE",
            "SIGHUP",
            "SIGILL",
            "SIGINT",
            "SIGIO",
            "SIGIOT",
            "SIGKILL",
            "SIGPIPE",
            "SIGPOLL",
            "SIGPROF",
            "SIGPWR",
            "SIGQUIT",
            "SIGSEGV",
            "SIGSTKFLT",
            "SIGSTOP",
            "SIGSYS",
            "SIGTERM",
            "SIGTRAP",
            "SIGTSTP",
            "SIGTTIN",
            "SIGTTOU",
            "SIGURG",
            "SIGUSR1",
            "SIGUSR2",
            "SIGVTALRM",
            "SIGWINCH",
            "SIGXCPU",
            "SIGXFSZ",
            "SIGRTMIN",
            "SIGRTMIN+1",
            "SIGRTMIN+2",
            "SIGRTMIN+3",
            "SIGRTMIN+4",
            "SIGRTMIN+5",
            "SIGRTMIN+6",
            "SIGRTMIN+7",
            "SIGRTMIN+8",
            "SIGRTMIN+9",
            "SIGRTMIN+10",
            "SIGRTMIN+11",
            "SIGRTMIN+12",
            "SIGRTMIN+13",
            "SIGRTMIN+14",
            "SIGRTMIN+15",
            "SIGRTMAX-14",
            "SIGRTMAX-13",
            "SIGRTMAX-12",
            "SIGRTMAX-11",
            "SIGRTMAX-10",
            "SIGRTMAX-9",
            "SIGRTMAX-8",
            "SIGRTMAX-7",
            "SIGRTMAX-6",
            "SIGRTMAX-5",
            "SIGRTMAX-4",
            "SIGRTMAX-3",
            "SIGRTMAX-2",
            "SIGRTMAX-1",
            "SIGRTMAX",
        ),
    )


class ContainerState(Type):
    """One of waiting, running and terminated."""

    waiting: ContainerStateWaiting | None = field(1)
    running: ContainerStateRunning | None = field(2)
    terminated: ContainerStateTerminated | None = field(3)


class ContainerStateWaiting(Type):
    """A container that has not started yet."""

    reason: str = field(1)
    message: str = field(2)


class ContainerStateRunning(Type):
    """A running container."""

    startedAt: Time = field(1)


class ContainerStateTerminated(Type):
    """A container that has ended."""

    exitCode: int32 = field(1, always=True, required=True)
    signal: int32 = field(2)
    reason: str = field(3)
    message: str = field(4)
    startedAt: Time = field(5)
    finishedAt: Time = field(6)
    containerID: str = field(7)


class ContainerUser(Type):
    """The user a container's first process runs as."""

    linux: LinuxContainerUser | None = field(1)


class LinuxContainerUser(Type):
    """User and groups in numbers."""

    uid: int64 = field(1, always=True, required=True)
    gid: int64 = field(2, always=True, required=True)
    supplementalGroups: list[int64] = field(3)


class ResourceStatus(Type):
    """Health of the units of one resource given to a container."""

    name: str = field(1, always=True, required=True)
    resources: list[ResourceHealth] = field(2, keys=("resourceID",))


class ResourceHealth(Type):
    """Health of one unit of a resource."""

    resourceID: str = field(1, always=True, required=True)
    health: str = field(2)
    message: str | None = field(6)


class VolumeMountStatus(Type):
    """How a volume came to be mounted."""

    name: str = field(1, always=True, required=True)
    mountPath: str = field(2, always=True, required=True)
    readOnly: bool = field(3)
    recursiveReadOnly: str | None = field(4)
    volumeStatus: VolumeStatus | None = field(5)


class VolumeStatus(Type):
    """What is known of one mounted volume."""

    image: ImageVolumeStatus | None = field(1)


class ImageVolumeStatus(Type):
    """The image that an image volume shows."""

    imageRef: str = field(1, required=True)
