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
    workingDir: str = field(5)
    ports: list[ContainerPort] = field(
        6,
        keys=("containerPort", "protocol"),
        merge="containerPort",
        doc="Ports the container listens on.",
    )
    envFrom: list[EnvFromSource] = field(19)
    env: list[EnvVar] = field(7, keys=("name",), merge="name", doc="Environment variables.")
    resources: ResourceRequirements = field(8, doc="Resources asked for and allowed.")
    resizePolicy: list[ContainerResizePolicy] = field(23)
    restartPolicy: str | None = field(24)
    restartPolicyRules: list[ContainerRestartRule] = field(25)
    volumeMounts: list[VolumeMount] = field(
        9, keys=("mountPath",), merge="mountPath", doc="Volumes to show in the container."
    )
    volumeDevices: list[VolumeDevice] = field(21, keys=("devicePath",), merge="devicePath")
    livenessProbe: Probe | None = field(10, doc="Failing restarts the container.")
    readinessProbe: Probe | None = field(11, doc="Failing takes the pod out of services.")
    startupProbe: Probe | None = field(22, doc="The other probes wait until it succeeds.")
    lifecycle: Lifecycle | None = field(12)
    terminationMessagePath: str = field(13)
    terminationMessagePolicy: str = field(20, enum=("File", "FallbackToLogsOnError"))
    imagePullPolicy: str = field(14, enum=("Always", "Never", "IfNotPresent"))
    securityContext: SecurityContext | None = field(15)
    stdin: bool = field(16)
    stdinOnce: bool = field(17)
    tty: bool = field(18)


class EphemeralContainer(Type):
    """A container added to a running pod, to look into it."""

    ephemeralContainerCommon: EphemeralContainerCommon = field(1, inline=True)
    targetContainerName: str = field(2)


class EphemeralContainerCommon(Type):
    """What an ephemeral container shares with an ordinary one."""

    name: str = field(1, always=True, required=True)
    image: str = field(2)
    command: list[str] = field(3)
    args: list[str] = field(4)
    workingDir: str = field(5)
    ports: list[ContainerPort] = field(6, keys=("containerPort", "protocol"), merge="containerPort")
    envFrom: list[EnvFromSource] = field(19)
    env: list[EnvVar] = field(7, keys=("name",), merge="name")
    resources: ResourceRequirements = field(8)
    resizePolicy: list[ContainerResizePolicy] = field(23)
    restartPolicy: str | None = field(24)
    restartPolicyRules: list[ContainerRestartRule] = field(25)
    volumeMounts: list[VolumeMount] = field(9, keys=("mountPath",), merge="mountPath")
    volumeDevices: list[VolumeDevice] = field(21, keys=("devicePath",), merge="devicePath")
    livenessProbe: Probe | None = field(10)
    readinessProbe: Probe | None = field(11)
    startupProbe: Probe | None = field(22)
    lifecycle: Lifecycle | None = field(12)
    terminationMessagePath: str = field(13)
    terminationMessagePolicy: str = field(20, enum=("File", "FallbackToLogsOnError"))
    imagePullPolicy: str = field(14, enum=("Always", "Never", "IfNotPresent"))
    securityContext: SecurityContext | None = field(15)
    stdin: bool = field(16)
    stdinOnce: bool = field(17)
    tty: bool = field(18)


class ContainerPort(Type):
    """A network port in a single container."""

    name: str = field(1)
    hostPort: int32 = field(2)
    containerPort: int32 = field(3, always=True, required=True)
    protocol: str = field(4, default="TCP", enum=("TCP", "UDP", "SCTP"))
    hostIP: str = field(5)


class ContainerResizePolicy(Type):
    """Whether changing a resource restarts the container."""

    resourceName: str = field(1, always=True, required=True)
    restartPolicy: str = field(2, always=True, required=True)


class ContainerRestartRule(Type):
    """What a container's end leads to, when the rule matches."""

    action: str = field(1, required=True)
    exitCodes: ContainerRestartRuleOnExitCodes | None = field(2)


class ContainerRestartRuleOnExitCodes(Type):
    """Matches a container's end by its exit code."""

    operator: str = field(1, required=True)
    values: list[int32] = field(2, set=True)


class ResourceRequirements(Type):
    """How much of each resource is asked for and allowed."""

    limits: dict[str, Quantity] = field(1)
    requests: dict[str, Quantity] = field(2)
    claims: list[ResourceClaim] = field(3, keys=("name",))


class ResourceClaim(Type):
    """Names one of the pod's resource claims."""

    name: str = field(1, always=True, required=True)
    request: str = field(2)


class VolumeMount(Type):
    """Where a volume appears inside a container."""

    name: str = field(1, always=True, required=True)
    readOnly: bool = field(2)
    recursiveReadOnly: str | None = field(7)
    mountPath: str = field(3, always=True, required=True)
    subPath: str = field(4)
    mountPropagation: str | None = field(5, enum=("None", "HostToContainer", "Bidirectional"))
    subPathExpr: str = field(6)
    bindMountOptions: list[str] = field(8, set=True)


class VolumeDevice(Type):
    """Where a raw block device appears inside a container."""

    name: str = field(1, always=True, required=True)
    devicePath: str = field(2, always=True, required=True)
