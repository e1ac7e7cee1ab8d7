"""The status of a pod and of its containers, as the kubelet and the scheduler report it."""

from __future__ import annotations

from kapiserver.api.core.v1.containers import ResourceRequirements
from kapiserver.api.core.v1.probes import STOP_SIGNALS
from kapiserver.api.scalar_types import Quantity, Time
from kapiserver.api.types import Type, field, int32, int64


class PodStatus(Type):
    """Observed state of a pod. It may lag behind, above all when its node is unreachable."""

    observedGeneration: int64 = field(
        17,
        doc=(
            "The metadata.generation of the pod that this status describes. A lower number than "
            "the current generation means the status is stale."
        ),
    )
    phase: str = field(
        1,
        enum=("Pending", "Running", "Succeeded", "Failed", "Unknown"),
        doc=(
            "Summary of the pod's life: Pending, Running, Succeeded (every container exited with "
            "0), Failed (one did not) or Unknown. conditions say more."
        ),
    )
    conditions: list[PodCondition] = field(
        2,
        keys=("type",),
        merge="type",
        doc=(
            "Conditions of the pod, one entry per type, for example PodScheduled, Initialized, "
            "ContainersReady and Ready."
        ),
    )
    message: str = field(3, doc="Human-readable explanation of why the pod is in this state.")
    reason: str = field(
        4, doc="CamelCase code of why the pod is in this state, for example Evicted."
    )
    nominatedNodeName: str = field(
        11,
        doc=(
            "Node that the scheduler intends for the pod, for example while it preempts other "
            "pods there. The pod may still go elsewhere."
        ),
    )
    hostIP: str = field(
        5, doc="Primary IP address of the pod's node. Empty until the pod is assigned to a node."
    )
    hostIPs: list[HostIP] = field(
        16,
        merge="ip",
        doc="IP addresses of the pod's node, at most one per family. The first one equals hostIP.",
    )
    podIP: str = field(
        6,
        doc=(
            "Primary IP address of the pod, reachable at least within the cluster. Empty until "
            "the pod has one."
        ),
    )
    podIPs: list[PodIP] = field(
        12,
        keys=("ip",),
        merge="ip",
        doc="IP addresses of the pod, at most one per family. The first one equals podIP.",
    )
    startTime: Time | None = field(
        7, doc="When the kubelet accepted the pod, before it pulled any image."
    )
    initContainerStatuses: list[ContainerStatus] = field(
        10,
        doc=(
            "State of each init container of the spec, one entry per container. A container that "
            "has completed is ready."
        ),
    )
    containerStatuses: list[ContainerStatus] = field(
        8, doc="State of each regular container of the spec, one entry per container."
    )
    qosClass: str = field(
        9,
        enum=("Guaranteed", "Burstable", "BestEffort"),
        doc=(
            "Quality of service, computed from requests and limits when the pod is created: "
            "Guaranteed, Burstable or BestEffort. BestEffort pods are evicted first."
        ),
    )
    ephemeralContainerStatuses: list[ContainerStatus] = field(
        13, doc="State of each ephemeral container that was added to the pod."
    )
    resize: str = field(
        14,
        doc=(
            "Progress of a resize of the pod: InProgress, Deferred or Infeasible. Deprecated: see "
            "the conditions PodResizePending and PodResizeInProgress."
        ),
    )
    resourceClaimStatuses: list[PodResourceClaimStatus] = field(
        15,
        keys=("name",),
        merge="name",
        patch="retainKeys",
        doc=(
            "Names of the ResourceClaims that exist for the entries of spec.resourceClaims, one "
            "entry per name."
        ),
    )
    extendedResourceClaimStatus: PodExtendedResourceClaimStatus | None = field(
        18,
        doc=(
            "The ResourceClaim that the scheduler created for extended resources that a DRA "
            "driver provides."
        ),
    )
    allocatedResources: dict[str, Quantity] = field(
        19,
        doc=(
            "Requests that the node has set aside for the pod as a whole. They differ from "
            "spec.resources while a resize is pending."
        ),
    )
    resources: ResourceRequirements | None = field(
        20,
        doc=(
            "Pod-level requests and limits that are in effect on the node. They differ from "
            "spec.resources while a resize is pending."
        ),
    )
    nodeAllocatableResourceClaimStatuses: list[NodeAllocatableResourceClaimStatus] = field(
        21,
        keys=("resourceClaimName",),
        merge="resourceClaimName",
        doc=(
            "Resources of the node, such as cpu and memory, that the pod uses through "
            "ResourceClaims. Alpha: the server drops this field from new statuses."
        ),
    )
    volumeHealth: list[PodVolumeHealth] = field(
        22,
        keys=("name",),
        doc=(
            "Health of the pod's CSI volumes, one entry per volume. Alpha: the server drops this "
            "field from new statuses."
        ),
    )


class PodCondition(Type):
    """One aspect of a pod's state."""

    type: str = field(
        1,
        always=True,
        doc=(
            "Aspect of the pod that the condition describes, for example PodScheduled, Ready, "
            "DisruptionTarget or PodResizePending."
        ),
        required=True,
    )
    observedGeneration: int64 = field(
        7, doc="The metadata.generation of the pod for which this condition was set."
    )
    status: str = field(
        2,
        always=True,
        doc="Whether the pod condition holds: True, False or Unknown.",
        required=True,
    )
    lastProbeTime: Time = field(
        3, doc="When the condition of the pod was last probed. The kubelet leaves it null."
    )
    lastTransitionTime: Time = field(
        4, doc="When the status of the pod condition last changed, for example from False to True."
    )
    reason: str = field(
        5,
        doc=(
            "CamelCase code of the pod condition's last change, for example ContainersNotReady or "
            "SchedulingGated."
        ),
    )
    message: str = field(6, doc="Human-readable explanation of the pod condition's last change.")


class PodIP(Type):
    """One IP address of a pod."""

    ip: str = field(
        1, always=True, required=True, doc="IP address that was assigned to the pod: IPv4 or IPv6."
    )


class HostIP(Type):
    """One IP address of the node that runs a pod."""

    ip: str = field(
        1, always=True, required=True, doc="IP address of the pod's node: IPv4 or IPv6."
    )


class PodResourceClaimStatus(Type):
    """The ResourceClaim behind one entry of a pod's spec.resourceClaims."""

    name: str = field(
        1,
        always=True,
        required=True,
        doc="Name of the entry in spec.resourceClaims that this status is about.",
    )
    resourceClaimName: str | None = field(
        2,
        doc=(
            "ResourceClaim that was generated for the entry. Absent when the entry needs none or "
            "it does not exist yet."
        ),
    )


class PodExtendedResourceClaimStatus(Type):
    """The ResourceClaim that stands behind a pod's extended resources."""

    requestMappings: list[ContainerExtendedResourceRequest] = field(
        1,
        always=True,
        required=True,
        doc=(
            "Which request of the claim provides which extended resource of which container. At "
            "least one entry."
        ),
    )
    resourceClaimName: str = field(
        2,
        always=True,
        required=True,
        doc="ResourceClaim in the pod's namespace that was generated for its extended resources.",
    )


class ContainerExtendedResourceRequest(Type):
    """The claim's request that provides one extended resource of a container."""

    containerName: str = field(
        1,
        always=True,
        required=True,
        doc="Container or init container of the pod that requests the extended resource.",
    )
    resourceName: str = field(
        2,
        always=True,
        required=True,
        doc="Extended resource in the container's requests, for example example.com/gpu.",
    )
    requestName: str = field(
        3,
        always=True,
        required=True,
        doc=(
            "Request of the special ResourceClaim that provides the extended resource: a DNS label."
        ),
    )


class NodeAllocatableResourceClaimStatus(Type):
    """Resources of the node that a pod uses through one ResourceClaim."""

    resourceClaimName: str = field(
        1,
        always=True,
        required=True,
        doc="ResourceClaim, in the pod's namespace, whose devices use resources of the node.",
    )
    containers: list[str] = field(
        2, set=True, doc="Names of the containers in the pod that use the claim."
    )
    mapping: list[NodeAllocatableMappedResources] = field(
        4,
        keys=("name",),
        merge="name",
        doc="Resources of the node that the claim's devices stand for, one entry per resource.",
    )
    overhead: list[NodeAllocatableOverheadResources] = field(
        5,
        keys=("name",),
        merge="name",
        doc=(
            "Resources of the node that the claim's devices cost in addition, one entry per "
            "resource."
        ),
    )


class NodeAllocatableMappedResources(Type):
    """An amount of one node resource that a claim's devices stand for."""

    name: str = field(
        1,
        always=True,
        required=True,
        doc="Resource of the node that the devices stand for, for example cpu or memory.",
    )
    quantity: Quantity | None = field(
        2,
        always=True,
        required=True,
        doc="Amount of the resource that the devices provide and that is taken from the node.",
    )


class NodeAllocatableOverheadResources(Type):
    """An amount of one node resource that a claim's devices cost extra."""

    name: str = field(
        1,
        always=True,
        required=True,
        doc="Resource of the node that the devices need in addition, for example memory.",
    )
    perPod: Quantity | None = field(2, doc="Amount that is added once for the whole pod.")
    perContainer: Quantity | None = field(
        3, doc="Amount that is added for each container that uses the claim."
    )


class PodVolumeHealth(Type):
    """Health of one volume of a pod, as a CSI driver reports it."""

    name: str = field(
        1, always=True, required=True, doc="Name of the volume in the pod's spec.volumes."
    )
    healthConditions: list[VolumeHealthCondition] = field(
        2,
        keys=("status", "reason"),
        merge="status",
        doc=(
            "Problems of the pod's volume, at most 16, one entry for a status with a reason. "
            "Empty: the volume is healthy."
        ),
    )
    lastTransitionTime: Time = field(
        3, doc="When the health conditions of the pod's volume last changed."
    )


class VolumeHealthCondition(Type):
    """One problem of a volume."""

    status: str = field(
        1,
        always=True,
        required=True,
        enum=("Inaccessible", "DataLoss", "Degraded"),
        doc=(
            "Kind of problem: Inaccessible (no access to the data), DataLoss or Degraded (works "
            "with less performance or redundancy)."
        ),
    )
    reason: str = field(
        2,
        always=True,
        required=True,
        doc="CamelCase code of the problem, as the CSI driver defines it.",
    )
    message: str = field(3, doc="Human-readable explanation of the volume's problem.")


class VolumeHealthStatus(Type):
    """Health of a volume, as a CSI driver reports it."""

    healthConditions: list[VolumeHealthCondition] = field(
        1,
        keys=("status", "reason"),
        merge="status",
        doc=(
            "Problems of the claim's volume, at most 16, one entry for a status with a reason. "
            "Empty: the volume is healthy."
        ),
    )
    lastTransitionTime: Time = field(
        2, doc="When the health conditions of the claim's volume last changed."
    )


class ContainerStatus(Type):
    """Observed state of one container of a pod."""

    name: str = field(1, always=True, required=True, doc="Name of the container in the pod's spec.")
    state: ContainerState = field(
        2, doc="Present state of the container: waiting, running or terminated."
    )
    lastState: ContainerState = field(
        3,
        doc=(
            "Last termination of the container, to find out why it restarted. Empty when it never "
            "restarted."
        ),
    )
    ready: bool = field(
        4,
        always=True,
        required=True,
        doc=(
            "Whether the container passes its readiness probe and has started. For an init "
            "container: whether it completed, or as a sidecar is ready."
        ),
    )
    restartCount: int32 = field(
        5,
        always=True,
        required=True,
        doc=(
            "How often the kubelet has restarted the container. Garbage collection of old "
            "containers can lower the count."
        ),
    )
    image: str = field(
        6,
        always=True,
        required=True,
        doc=(
            "Image that the container runs. Its name may differ from the spec when the runtime "
            "resolved it otherwise."
        ),
    )
    imageID: str = field(
        7,
        always=True,
        required=True,
        doc="Identifier of the image with its digest, as the container runtime reports it.",
    )
    containerID: str = field(
        8,
        doc=(
            "Identifier of the container as TYPE://ID, where TYPE names the container runtime, "
            "for example containerd."
        ),
    )
    started: bool | None = field(
        9,
        doc=(
            "Whether the startup probe has succeeded and the postStart hook has finished. It is "
            "false again after each restart."
        ),
    )
    allocatedResources: dict[str, Quantity] = field(
        10,
        doc=(
            "Requests that the node has set aside for the container. They differ from the spec "
            "while a resize is pending."
        ),
    )
    resources: ResourceRequirements | None = field(
        11,
        doc=(
            "Requests and limits that are in effect for the running container. They differ from "
            "the spec while a resize is pending."
        ),
    )
    volumeMounts: list[VolumeMountStatus] = field(
        12,
        keys=("mountPath",),
        merge="mountPath",
        doc="How each volume of the container is really mounted, one entry per mount path.",
    )
    user: ContainerUser | None = field(
        13,
        doc=(
            "User and groups of the container's first process when it started. Absent when the "
            "runtime does not report them."
        ),
    )
    allocatedResourcesStatus: list[ResourceStatus] = field(
        14,
        keys=("name",),
        merge="name",
        doc=(
            "Health of the devices that were given to the container, one entry per resource. Not "
            "for ephemeral containers."
        ),
    )
    stopSignal: str | None = field(
        15,
        enum=STOP_SIGNALS,
        doc=(
            "Signal that stops the container, as the runtime reports it: from the container's "
            "lifecycle or from its image."
        ),
    )


class ContainerState(Type):
    """State of a container: one of its fields is set. When none is: waiting."""

    waiting: ContainerStateWaiting | None = field(
        1,
        doc=(
            "Details of a container that has not started, for example because its image is being "
            "pulled."
        ),
    )
    running: ContainerStateRunning | None = field(2, doc="Details of a container that is running.")
    terminated: ContainerStateTerminated | None = field(
        3, doc="Details of a container that ran and exited or was killed."
    )


class ContainerStateWaiting(Type):
    """Why a container is not running yet."""

    reason: str = field(
        1,
        doc=(
            "CamelCase code of what the container waits for, for example ContainerCreating or "
            "ImagePullBackOff."
        ),
    )
    message: str = field(2, doc="Human-readable explanation of what the container waits for.")


class ContainerStateRunning(Type):
    """Since when a container has been running."""

    startedAt: Time = field(1, doc="When the container started or last restarted.")


class ContainerStateTerminated(Type):
    """How a container ended."""

    exitCode: int32 = field(
        1, always=True, required=True, doc="Exit code of the container's last run. 0 means success."
    )
    signal: int32 = field(
        2, doc="Number of the signal that ended the container's last run. 0 when none did."
    )
    reason: str = field(
        3, doc="CamelCase code of the container's end, for example Completed, Error or OOMKilled."
    )
    message: str = field(
        4,
        doc=(
            "The container's termination message, read from its terminationMessagePath or from "
            "its log."
        ),
    )
    startedAt: Time = field(5, doc="When the run that ended had started.")
    finishedAt: Time = field(6, doc="When the run of the container ended.")
    containerID: str = field(
        7,
        doc=(
            "Identifier of the container that ended, as TYPE://ID, where TYPE names the container "
            "runtime."
        ),
    )


class ContainerUser(Type):
    """User and groups of a container's first process."""

    linux: LinuxContainerUser | None = field(
        1, doc="User and groups of a Linux container. Absent for other systems."
    )


class LinuxContainerUser(Type):
    """Numeric identity of the first process of a Linux container."""

    uid: int64 = field(
        1,
        always=True,
        required=True,
        doc="User ID of the container's first process when it started.",
    )
    gid: int64 = field(
        2,
        always=True,
        required=True,
        doc="Primary group ID of the container's first process when it started.",
    )
    supplementalGroups: list[int64] = field(
        3, doc="Supplementary group IDs of the container's first process when it started."
    )


class ResourceStatus(Type):
    """Health of the units of one resource that a container got."""

    name: str = field(
        1,
        always=True,
        required=True,
        doc=(
            "Resource of the container: an extended resource of its requests, or "
            "claim:CLAIM/REQUEST for a device of a ResourceClaim."
        ),
    )
    resources: list[ResourceHealth] = field(
        2,
        keys=("resourceID",),
        doc="Health of each unit that was allocated to the container, one entry per resourceID.",
    )


class ResourceHealth(Type):
    """Health of one unit of a resource, for example of one device."""

    resourceID: str = field(
        1,
        always=True,
        required=True,
        doc="Unique identifier of the unit on the node. Its format depends on the driver.",
    )
    health: str = field(
        2, doc="Health of the unit: Healthy, Unhealthy or Unknown. A unit can become healthy again."
    )
    message: str | None = field(
        6,
        doc=(
            "Human-readable explanation of the unit's health, for example the error that the "
            "driver saw."
        ),
    )


class VolumeMountStatus(Type):
    """How a volume is mounted in a running container."""

    name: str = field(
        1, always=True, required=True, doc="Name of the volume, as in the container's volumeMounts."
    )
    mountPath: str = field(
        2,
        always=True,
        required=True,
        doc=(
            "Path in the container at which the volume is mounted, as in the container's "
            "volumeMounts."
        ),
    )
    readOnly: bool = field(3, doc="Whether the volume is mounted read-only.")
    recursiveReadOnly: str | None = field(
        4,
        doc=(
            "Whether mounts below this one are read-only too: Disabled or Enabled. IfPossible in "
            "the spec is resolved to one of them."
        ),
    )
    volumeStatus: VolumeStatus | None = field(
        5, doc="Further status of the volume, depending on its source."
    )


class VolumeStatus(Type):
    """Status of a mounted volume, by the volume's source."""

    image: ImageVolumeStatus | None = field(
        1, doc="Status of an image volume. Alpha: the server drops this field from new statuses."
    )


class ImageVolumeStatus(Type):
    """The image that an image volume shows."""

    imageRef: str = field(
        1, required=True, doc="Digest of the image that is mounted. At most 256 characters."
    )
