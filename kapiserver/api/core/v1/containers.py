"""Containers of a pod, their ports, resources and mounts."""

from __future__ import annotations

from kapiserver.api.core.v1.environment import EnvFromSource, EnvVar
from kapiserver.api.core.v1.probes import Lifecycle, Probe
from kapiserver.api.core.v1.security import SecurityContext
from kapiserver.api.leaves import Quantity
from kapiserver.api.types import Type, field, int32


class Container(Type):
    """One container of a pod."""

    name: str = field(1, always=True, doc="Unique in the pod.", required=True)
    image: str = field(2, doc="The image to run.")
    command: list[str] = field(3, doc="Replaces the image's entry point.")
    args: list[str] = field(4, doc="Arguments of the command.")
    workingDir: str = field(5, doc="The folder it starts in; the image's where nothing is said.")
    ports: list[ContainerPort] = field(
        6,
        keys=("containerPort", "protocol"),
        merge="containerPort",
        doc="Ports the container listens on.",
    )
    envFrom: list[EnvFromSource] = field(19, doc="Where more environment variables come from.")
    env: list[EnvVar] = field(7, keys=("name",), merge="name", doc="Environment variables.")
    resources: ResourceRequirements = field(8, doc="Resources asked for and allowed.")
    resizePolicy: list[ContainerResizePolicy] = field(
        23, doc="What changing its resources means for it."
    )
    restartPolicy: str | None = field(
        24, doc="When it is started anew; Always makes a sidecar of an init container."
    )
    restartPolicyRules: list[ContainerRestartRule] = field(
        25, doc="What exit codes mean, before restartPolicy."
    )
    volumeMounts: list[VolumeMount] = field(
        9, keys=("mountPath",), merge="mountPath", doc="Volumes to show in the container."
    )
    volumeDevices: list[VolumeDevice] = field(
        21, keys=("devicePath",), merge="devicePath", doc="Block devices it sees."
    )
    livenessProbe: Probe | None = field(10, doc="Failing restarts the container.")
    readinessProbe: Probe | None = field(11, doc="Failing takes the pod out of services.")
    startupProbe: Probe | None = field(22, doc="The other probes wait until it succeeds.")
    lifecycle: Lifecycle | None = field(12, doc="What to do after it started and before it ends.")
    terminationMessagePath: str = field(13, doc="The file with its last words.")
    terminationMessagePolicy: str = field(
        20, enum=("File", "FallbackToLogsOnError"), doc="File or FallbackToLogsOnError."
    )
    imagePullPolicy: str = field(
        14, enum=("Always", "Never", "IfNotPresent"), doc="Always, IfNotPresent or Never."
    )
    securityContext: SecurityContext | None = field(15, doc="As whom and how it runs.")
    stdin: bool = field(16, doc="Whether there is a standard input to attach to.")
    stdinOnce: bool = field(17, doc="Whether standard input closes after the first client.")
    tty: bool = field(18, doc="Whether there is a terminal.")


class EphemeralContainer(Type):
    """A container added to a running pod, to look into it."""

    ephemeralContainerCommon: EphemeralContainerCommon = field(1, inline=True)
    targetContainerName: str = field(2, doc="The container whose processes it sees.")


class EphemeralContainerCommon(Type):
    """What an ephemeral container shares with an ordinary one."""

    name: str = field(1, always=True, required=True, doc="Its name.")
    image: str = field(2, doc="The image to run.")
    command: list[str] = field(3, doc="What to run instead of the image's entry point.")
    args: list[str] = field(4, doc="Arguments of the command.")
    workingDir: str = field(5, doc="The folder it starts in.")
    ports: list[ContainerPort] = field(
        6, keys=("containerPort", "protocol"), merge="containerPort", doc="Not allowed here."
    )
    envFrom: list[EnvFromSource] = field(19, doc="Where more environment variables come from.")
    env: list[EnvVar] = field(7, keys=("name",), merge="name", doc="Environment variables.")
    resources: ResourceRequirements = field(8, doc="Not allowed here.")
    resizePolicy: list[ContainerResizePolicy] = field(23, doc="Not allowed here.")
    restartPolicy: str | None = field(24, doc="Not allowed here.")
    restartPolicyRules: list[ContainerRestartRule] = field(25, doc="Not allowed here.")
    volumeMounts: list[VolumeMount] = field(
        9, keys=("mountPath",), merge="mountPath", doc="Volumes it sees."
    )
    volumeDevices: list[VolumeDevice] = field(
        21, keys=("devicePath",), merge="devicePath", doc="Block devices it sees."
    )
    livenessProbe: Probe | None = field(10, doc="Not allowed here.")
    readinessProbe: Probe | None = field(11, doc="Not allowed here.")
    startupProbe: Probe | None = field(22, doc="Not allowed here.")
    lifecycle: Lifecycle | None = field(12, doc="Not allowed here.")
    terminationMessagePath: str = field(13, doc="The file with its last words.")
    terminationMessagePolicy: str = field(
        20, enum=("File", "FallbackToLogsOnError"), doc="File or FallbackToLogsOnError."
    )
    imagePullPolicy: str = field(
        14, enum=("Always", "Never", "IfNotPresent"), doc="Always, IfNotPresent or Never."
    )
    securityContext: SecurityContext | None = field(15, doc="As whom and how it runs.")
    stdin: bool = field(16, doc="Whether standard input is connected.")
    stdinOnce: bool = field(17, doc="Whether standard input closes after the first client.")
    tty: bool = field(18, doc="Whether there is a terminal.")


class ContainerPort(Type):
    """A network port in a single container."""

    name: str = field(1, doc="Its name, by which services can refer to it.")
    hostPort: int32 = field(2, doc="The same port on the node.")
    containerPort: int32 = field(3, always=True, required=True, doc="The number of the port.")
    protocol: str = field(4, default="TCP", enum=("TCP", "UDP", "SCTP"), doc="TCP, UDP or SCTP.")
    hostIP: str = field(5, doc="The address of the node to bind to.")


class ContainerResizePolicy(Type):
    """Whether changing a resource restarts the container."""

    resourceName: str = field(1, always=True, required=True, doc="The resource, by name.")
    restartPolicy: str = field(
        2, always=True, required=True, doc="NotRequired or RestartContainer."
    )


class ContainerRestartRule(Type):
    """What a container's end leads to, when the rule matches."""

    action: str = field(1, required=True, doc="Restart or RestartAllContainers.")
    exitCodes: ContainerRestartRuleOnExitCodes | None = field(2, doc="Exit codes that it is about.")


class ContainerRestartRuleOnExitCodes(Type):
    """Matches a container's end by its exit code."""

    operator: str = field(1, required=True, doc="In or NotIn.")
    values: list[int32] = field(2, set=True, doc="The values to compare with.")


class ResourceRequirements(Type):
    """How much of each resource is asked for and allowed."""

    limits: dict[str, Quantity] = field(1, doc="What it may use at most.")
    requests: dict[str, Quantity] = field(2, doc="What is set aside for it.")
    claims: list[ResourceClaim] = field(3, keys=("name",), doc="Claims of the pod that it uses.")


class ResourceClaim(Type):
    """Names one of the pod's resource claims."""

    name: str = field(1, always=True, required=True, doc="The claim, as the pod names it.")
    request: str = field(2, doc="Which request.")


class VolumeMount(Type):
    """Where a volume appears inside a container."""

    name: str = field(1, always=True, required=True, doc="The volume, as the pod names it.")
    readOnly: bool = field(2, doc="Whether nothing may be written to it.")
    recursiveReadOnly: str | None = field(
        7, doc="Disabled, IfPossible or Enabled: mounts below as well."
    )
    mountPath: str = field(3, always=True, required=True, doc="Where it shows in the container.")
    subPath: str = field(4, doc="Only what lies there in the volume.")
    mountPropagation: str | None = field(
        5,
        enum=("None", "HostToContainer", "Bidirectional"),
        doc="None, HostToContainer or Bidirectional.",
    )
    subPathExpr: str = field(6, doc="As subPath, with $(VARIABLES).")
    bindMountOptions: list[str] = field(8, set=True, doc="Options of the mount.")


class VolumeDevice(Type):
    """Where a raw block device appears inside a container."""

    name: str = field(1, always=True, required=True, doc="The claim's volume, as the pod names it.")
    devicePath: str = field(2, always=True, required=True, doc="Where the device shows.")
