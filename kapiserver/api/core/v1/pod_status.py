"""What the kubelet says of a pod and its containers."""

from __future__ import annotations

from kapiserver.api.core.v1.containers import ResourceRequirements
from kapiserver.api.leaves import Quantity, Time
from kapiserver.api.types import Type, field, int32, int64


class PodStatus(Type):
    """What is known of a running pod."""

    observedGeneration: int64 = field(17, doc="The generation that this is about.")
    phase: str = field(
        1,
        enum=("Pending", "Running", "Succeeded", "Failed", "Unknown"),
        doc="Where the pod is in its life.",
    )
    conditions: list[PodCondition] = field(
        2, keys=("type",), merge="type", doc="What was found out about it."
    )
    message: str = field(3, doc="What happened, for people.")
    reason: str = field(4, doc="Why, in one word for programs.")
    nominatedNodeName: str = field(11, doc="Where it shall run once others are gone.")
    hostIP: str = field(5, doc="The address of its node.")
    hostIPs: list[HostIP] = field(16, merge="ip", doc="The addresses of its node.")
    podIP: str = field(6, doc="Its address.")
    podIPs: list[PodIP] = field(12, keys=("ip",), merge="ip", doc="Its addresses, one a family.")
    startTime: Time | None = field(7, doc="When it began.")
    initContainerStatuses: list[ContainerStatus] = field(10, doc="Its init containers.")
    containerStatuses: list[ContainerStatus] = field(8, doc="Its containers.")
    qosClass: str = field(
        9,
        enum=("Guaranteed", "Burstable", "BestEffort"),
        doc="Guaranteed, Burstable or BestEffort.",
    )
    ephemeralContainerStatuses: list[ContainerStatus] = field(13, doc="Its ephemeral containers.")
    resize: str = field(14, doc="How far changing its resources has come.")
    resourceClaimStatuses: list[PodResourceClaimStatus] = field(
        15, keys=("name",), merge="name", patch="retainKeys", doc="Claims that were made for it."
    )
    extendedResourceClaimStatus: PodExtendedResourceClaimStatus | None = field(
        18, doc="The claim behind its extended resources."
    )
    allocatedResources: dict[str, Quantity] = field(19, doc="What was set aside.")
    resources: ResourceRequirements | None = field(20, doc="What it needs, and may use.")
    nodeAllocatableResourceClaimStatuses: list[NodeAllocatableResourceClaimStatus] = field(
        21,
        keys=("resourceClaimName",),
        merge="resourceClaimName",
        doc="Claims that take of the node's resources.",
    )
    volumeHealth: list[PodVolumeHealth] = field(22, keys=("name",), doc="How its volumes are.")


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

    ip: str = field(1, always=True, required=True, doc="An IP address.")


class HostIP(Type):
    """One address of the pod's node."""

    ip: str = field(1, always=True, required=True, doc="An IP address.")


class PodResourceClaimStatus(Type):
    """The claim made for one entry of the pod's resource claims."""

    name: str = field(1, always=True, required=True, doc="The claim, as the pod names it.")
    resourceClaimName: str | None = field(2, doc="The claim, by name.")


class PodExtendedResourceClaimStatus(Type):
    """The claim made for the pod's extended resources."""

    requestMappings: list[ContainerExtendedResourceRequest] = field(
        1, always=True, required=True, doc="Which request is for which container."
    )
    resourceClaimName: str = field(2, always=True, required=True, doc="The claim, by name.")


class ContainerExtendedResourceRequest(Type):
    """Which request of a claim satisfies a container's extended resource."""

    containerName: str = field(1, always=True, required=True, doc="The container, by name.")
    resourceName: str = field(2, always=True, required=True, doc="The resource, by name.")
    requestName: str = field(3, always=True, required=True, doc="The request in the claim.")


class NodeAllocatableResourceClaimStatus(Type):
    """What a claim takes of a node's allocatable resources."""

    resourceClaimName: str = field(1, always=True, required=True, doc="The claim, by name.")
    containers: list[str] = field(2, set=True, doc="Containers that use it.")
    mapping: list[NodeAllocatableMappedResources] = field(
        4, keys=("name",), merge="name", doc="How devices map to what nodes count."
    )
    overhead: list[NodeAllocatableOverheadResources] = field(
        5, keys=("name",), merge="name", doc="What running it costs beside its containers."
    )


class NodeAllocatableMappedResources(Type):
    """Node resources that a claimed device stands for."""

    name: str = field(1, always=True, required=True, doc="Its name.")
    quantity: Quantity | None = field(2, always=True, required=True, doc="How much.")


class NodeAllocatableOverheadResources(Type):
    """Node resources a claimed device needs in addition."""

    name: str = field(1, always=True, required=True, doc="Its name.")
    perPod: Quantity | None = field(2, doc="For each pod.")
    perContainer: Quantity | None = field(3, doc="For each container.")


class PodVolumeHealth(Type):
    """Health of one of the pod's volumes."""

    name: str = field(1, always=True, required=True, doc="Its name.")
    healthConditions: list[VolumeHealthCondition] = field(
        2, keys=("status", "reason"), merge="status", doc="What was found out about its health."
    )
    lastTransitionTime: Time = field(3, doc="When it last changed.")


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
        1, keys=("status", "reason"), merge="status", doc="What was found out about its health."
    )
    lastTransitionTime: Time = field(2, doc="When it last changed.")


class ContainerStatus(Type):
    """What is known of one container."""

    name: str = field(1, always=True, required=True, doc="Its name.")
    state: ContainerState = field(2, doc="How it is now.")
    lastState: ContainerState = field(3, doc="How the one before it ended.")
    ready: bool = field(4, always=True, required=True, doc="Whether it takes requests.")
    restartCount: int32 = field(5, always=True, required=True, doc="How often it was started anew.")
    image: str = field(6, always=True, required=True, doc="The image it runs.")
    imageID: str = field(7, always=True, required=True, doc="The image, by digest.")
    containerID: str = field(8, doc="The container, as the runtime names it.")
    started: bool | None = field(9, doc="Whether its startup probe has succeeded.")
    allocatedResources: dict[str, Quantity] = field(10, doc="What was set aside.")
    resources: ResourceRequirements | None = field(11, doc="What it needs, and may use.")
    volumeMounts: list[VolumeMountStatus] = field(
        12, keys=("mountPath",), merge="mountPath", doc="How its volumes are mounted."
    )
    user: ContainerUser | None = field(13, doc="Who it is.")
    allocatedResourcesStatus: list[ResourceStatus] = field(
        14, keys=("name",), merge="name", doc="How its devices are."
    )
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
        doc="The signal that ends it.",
    )


class ContainerState(Type):
    """One of waiting, running and terminated."""

    waiting: ContainerStateWaiting | None = field(1, doc="It is not running yet.")
    running: ContainerStateRunning | None = field(2, doc="It is running.")
    terminated: ContainerStateTerminated | None = field(3, doc="It ran and has ended.")


class ContainerStateWaiting(Type):
    """A container that has not started yet."""

    reason: str = field(1, doc="Why, in one word for programs.")
    message: str = field(2, doc="What happened, for people.")


class ContainerStateRunning(Type):
    """A running container."""

    startedAt: Time = field(1, doc="When it began.")


class ContainerStateTerminated(Type):
    """A container that has ended."""

    exitCode: int32 = field(1, always=True, required=True, doc="Its exit code.")
    signal: int32 = field(2, doc="The signal that ended it.")
    reason: str = field(3, doc="Why, in one word for programs.")
    message: str = field(4, doc="What happened, for people.")
    startedAt: Time = field(5, doc="When it began.")
    finishedAt: Time = field(6, doc="When it ended.")
    containerID: str = field(7, doc="The container, as the runtime names it.")


class ContainerUser(Type):
    """The user a container's first process runs as."""

    linux: LinuxContainerUser | None = field(1, doc="User and groups on Linux.")


class LinuxContainerUser(Type):
    """User and groups in numbers."""

    uid: int64 = field(1, always=True, required=True, doc="The user id.")
    gid: int64 = field(2, always=True, required=True, doc="The group id.")
    supplementalGroups: list[int64] = field(3, doc="Further group ids.")


class ResourceStatus(Type):
    """Health of the units of one resource given to a container."""

    name: str = field(1, always=True, required=True, doc="Its name.")
    resources: list[ResourceHealth] = field(2, keys=("resourceID",), doc="How each device is.")


class ResourceHealth(Type):
    """Health of one unit of a resource."""

    resourceID: str = field(1, always=True, required=True, doc="The device.")
    health: str = field(2, doc="Healthy, Unhealthy or Unknown.")
    message: str | None = field(6, doc="What happened, for people.")


class VolumeMountStatus(Type):
    """How a volume came to be mounted."""

    name: str = field(1, always=True, required=True, doc="Its name.")
    mountPath: str = field(2, always=True, required=True, doc="Where it shows in the container.")
    readOnly: bool = field(3, doc="Whether nothing may be written to it.")
    recursiveReadOnly: str | None = field(4, doc="Whether mounts below it are read-only as well.")
    volumeStatus: VolumeStatus | None = field(5, doc="How the volume is.")


class VolumeStatus(Type):
    """What is known of one mounted volume."""

    image: ImageVolumeStatus | None = field(1, doc="Which image it is.")


class ImageVolumeStatus(Type):
    """The image that an image volume shows."""

    imageRef: str = field(1, required=True, doc="The image that was pulled.")
