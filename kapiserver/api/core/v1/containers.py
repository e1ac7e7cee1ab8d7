"""Containers of a pod, with their ports, resources and mounts."""

from __future__ import annotations

from kapiserver.api.core.v1.environment import EnvFromSource, EnvVar
from kapiserver.api.core.v1.probes import Lifecycle, Probe
from kapiserver.api.core.v1.security import SecurityContext
from kapiserver.api.scalar_types import Quantity
from kapiserver.api.types import Type, field, int32


class Container(Type):
    """A container of a pod: an image to run, with its environment, mounts and probes."""

    name: str = field(
        1,
        always=True,
        doc=(
            "Name of the container: a DNS label, unique among all containers of the pod. It "
            "cannot change."
        ),
        required=True,
    )
    image: str = field(
        2,
        doc=(
            "Image to run, for example nginx:1.29 or registry.example.com/app@sha256:... It is "
            "required in a pod. It may change on a running pod."
        ),
    )
    command: list[str] = field(
        3,
        doc=(
            "Program and first arguments, run without a shell. When absent: the image's "
            "ENTRYPOINT. $(NAME) expands to a variable of env; $$(NAME) stays as $(NAME)."
        ),
    )
    args: list[str] = field(
        4,
        doc=(
            "Arguments of the command. When absent: the image's CMD, unless command is set. "
            "$(NAME) expands to a variable of env; $$(NAME) stays as $(NAME)."
        ),
    )
    workingDir: str = field(
        5,
        doc=(
            "Directory in which the command starts. When empty: the one of the image, or the root "
            "directory."
        ),
    )
    ports: list[ContainerPort] = field(
        6,
        keys=("containerPort", "protocol"),
        merge="containerPort",
        doc=(
            "Ports that the container listens on. Mainly information: a port that is not listed "
            "is reachable too. Services can refer to a port by its name."
        ),
    )
    envFrom: list[EnvFromSource] = field(
        19,
        doc=(
            "ConfigMaps and Secrets whose keys all become environment variables. A later source "
            "overrides an earlier one, and env overrides both."
        ),
    )
    env: list[EnvVar] = field(
        7,
        keys=("name",),
        merge="name",
        doc=(
            "Environment variables of the container, in order: a value can refer to the variables "
            "before it."
        ),
    )
    resources: ResourceRequirements = field(
        8,
        doc=(
            "CPU, memory and other resources that the container requests and may use at most. "
            "Change it on a running pod through the resize subresource."
        ),
    )
    resizePolicy: list[ContainerResizePolicy] = field(
        23,
        doc=(
            "Whether the container restarts when cpu or memory are resized, one entry per "
            "resource. Default for each: NotRequired."
        ),
    )
    restartPolicy: str | None = field(
        24,
        doc=(
            "Restart policy of this container: Always, OnFailure or Never. When absent: the pod's "
            "policy. Always makes an init container a sidecar, which keeps running."
        ),
    )
    restartPolicyRules: list[ContainerRestartRule] = field(
        25,
        doc=(
            "Rules by exit code, at most 20; the first one that matches wins over restartPolicy, "
            "which must be set."
        ),
    )
    volumeMounts: list[VolumeMount] = field(
        9,
        keys=("mountPath",),
        merge="mountPath",
        doc=(
            "Volumes of the pod that the container sees as directories or files. Each mountPath "
            "is used once."
        ),
    )
    volumeDevices: list[VolumeDevice] = field(
        21,
        keys=("devicePath",),
        merge="devicePath",
        doc=(
            "Block volumes of the pod that the container sees as raw devices. Each must come from "
            "a claim with volumeMode Block."
        ),
    )
    livenessProbe: Probe | None = field(
        10,
        doc=(
            "Periodic check that the container works. When it fails, the kubelet restarts the "
            "container. When absent: the container counts as alive."
        ),
    )
    readinessProbe: Probe | None = field(
        11,
        doc=(
            "Periodic check that the container can serve. While it fails, services send the pod "
            "no traffic. When absent: the container counts as ready."
        ),
    )
    startupProbe: Probe | None = field(
        22,
        doc=(
            "Check that the container has started. The other probes begin when it succeeds; when "
            "it fails for good, the container restarts."
        ),
    )
    lifecycle: Lifecycle | None = field(
        12,
        doc=(
            "Hooks that run after the container starts and before it stops. Init containers may "
            "have it only as sidecars."
        ),
    )
    terminationMessagePath: str = field(
        13,
        doc=(
            "File in the container whose content becomes the termination message, at most 4096 "
            "bytes. Default: /dev/termination-log. It cannot change."
        ),
    )
    terminationMessagePolicy: str = field(
        20,
        enum=("File", "FallbackToLogsOnError"),
        doc=(
            "File: the message comes from terminationMessagePath alone. FallbackToLogsOnError: "
            "the end of the log is used if that file is empty and the container failed. Default: "
            "File."
        ),
    )
    imagePullPolicy: str = field(
        14,
        enum=("Always", "Never", "IfNotPresent"),
        doc=(
            "When the kubelet pulls the image: Always, IfNotPresent or Never. Default: Always for "
            "the tag latest or without tag and digest, otherwise IfNotPresent. It cannot change."
        ),
    )
    securityContext: SecurityContext | None = field(
        15,
        doc="Privileges of the container. Its fields override those of the pod's securityContext.",
    )
    stdin: bool = field(
        16,
        doc=(
            "Keep a buffer for standard input open, for kubectl attach. When false, reads from "
            "standard input reach the end at once. Default: false."
        ),
    )
    stdinOnce: bool = field(
        17,
        doc=(
            "Close standard input after the first attached client disconnects, until the "
            "container restarts. Needs stdin. Default: false."
        ),
    )
    tty: bool = field(18, doc="Allocate a terminal for the container. Needs stdin. Default: false.")


class EphemeralContainer(Type):
    """A container that is added to a running pod, mostly to debug it."""

    ephemeralContainerCommon: EphemeralContainerCommon = field(1, inline=True)
    targetContainerName: str = field(
        2,
        doc=(
            "Container whose process namespace the ephemeral container joins, so that it sees its "
            "processes. When empty: the pod's namespace, if it shares one."
        ),
    )


class EphemeralContainerCommon(Type):
    """Fields of an ephemeral container that ordinary containers have too."""

    name: str = field(
        1,
        always=True,
        required=True,
        doc=(
            "Name of the ephemeral container: a DNS label, unique among all containers of the pod."
        ),
    )
    image: str = field(
        2, doc="Image of the ephemeral container, usually one with debugging tools. It is required."
    )
    command: list[str] = field(
        3,
        doc=(
            "Program of the ephemeral container, run without a shell. When absent: the image's "
            "ENTRYPOINT. $(NAME) expands to a variable of env."
        ),
    )
    args: list[str] = field(
        4,
        doc=(
            "Arguments of the ephemeral container's command. When absent: the image's CMD, unless "
            "command is set."
        ),
    )
    workingDir: str = field(
        5,
        doc=(
            "Directory in which the ephemeral container's command starts. When empty: the one of "
            "the image."
        ),
    )
    ports: list[ContainerPort] = field(
        6,
        keys=("containerPort", "protocol"),
        merge="containerPort",
        doc="Not allowed: an ephemeral container publishes no ports.",
    )
    envFrom: list[EnvFromSource] = field(
        19,
        doc=(
            "ConfigMaps and Secrets whose keys all become variables of the ephemeral container. "
            "env overrides them."
        ),
    )
    env: list[EnvVar] = field(
        7,
        keys=("name",),
        merge="name",
        doc="Environment variables of the ephemeral container, in order.",
    )
    resources: ResourceRequirements = field(
        8, doc="Not allowed: an ephemeral container uses what the pod has left of its resources."
    )
    resizePolicy: list[ContainerResizePolicy] = field(
        23, doc="Not allowed: an ephemeral container has no resources to resize."
    )
    restartPolicy: str | None = field(
        24, doc="Not allowed: an ephemeral container is never restarted."
    )
    restartPolicyRules: list[ContainerRestartRule] = field(
        25, doc="Not allowed: there are no restart rules for an ephemeral container."
    )
    volumeMounts: list[VolumeMount] = field(
        9,
        keys=("mountPath",),
        merge="mountPath",
        doc=(
            "Volumes of the pod that the ephemeral container sees. subPath and subPathExpr are "
            "not allowed in them."
        ),
    )
    volumeDevices: list[VolumeDevice] = field(
        21,
        keys=("devicePath",),
        merge="devicePath",
        doc="Block volumes of the pod that the ephemeral container sees as raw devices.",
    )
    livenessProbe: Probe | None = field(
        10, doc="Not allowed: the kubelet does not probe whether an ephemeral container works."
    )
    readinessProbe: Probe | None = field(
        11, doc="Not allowed: an ephemeral container does not decide whether the pod is ready."
    )
    startupProbe: Probe | None = field(
        22, doc="Not allowed: nothing waits for an ephemeral container to start."
    )
    lifecycle: Lifecycle | None = field(
        12, doc="Not allowed: an ephemeral container has no lifecycle hooks."
    )
    terminationMessagePath: str = field(
        13,
        doc=(
            "File whose content becomes the ephemeral container's termination message. Default: "
            "/dev/termination-log."
        ),
    )
    terminationMessagePolicy: str = field(
        20,
        enum=("File", "FallbackToLogsOnError"),
        doc=(
            "Source of the ephemeral container's termination message: File, or "
            "FallbackToLogsOnError for its log when the file is empty. Default: File."
        ),
    )
    imagePullPolicy: str = field(
        14,
        enum=("Always", "Never", "IfNotPresent"),
        doc=(
            "When the kubelet pulls the ephemeral container's image: Always, IfNotPresent or "
            "Never. Default: Always for the tag latest or without tag and digest, otherwise "
            "IfNotPresent."
        ),
    )
    securityContext: SecurityContext | None = field(
        15,
        doc=(
            "Privileges of the ephemeral container. Its fields override those of the pod's "
            "securityContext."
        ),
    )
    stdin: bool = field(
        16,
        doc=(
            "Keep a buffer for the ephemeral container's standard input open, for kubectl attach. "
            "Default: false."
        ),
    )
    stdinOnce: bool = field(
        17,
        doc=(
            "Close the ephemeral container's standard input after the first attached client "
            "disconnects. Needs stdin. Default: false."
        ),
    )
    tty: bool = field(
        18, doc="Allocate a terminal for the ephemeral container. Needs stdin. Default: false."
    )


class ContainerPort(Type):
    """A network port that a container listens on."""

    name: str = field(
        1,
        doc=(
            "Name of the port for services and probes: at most 15 lower-case letters, digits and "
            '"-", with a letter among them. Unique in the container.'
        ),
    )
    hostPort: int32 = field(
        2,
        doc=(
            "Port of the node that is forwarded to the container, 1 to 65535. Only one pod of a "
            "node can have it. On the host network: equal to containerPort."
        ),
    )
    containerPort: int32 = field(
        3,
        always=True,
        required=True,
        doc="Number of the port that the container listens on, 1 to 65535.",
    )
    protocol: str = field(
        4,
        default="TCP",
        enum=("TCP", "UDP", "SCTP"),
        doc="Protocol of the container port: TCP, UDP or SCTP. Default: TCP.",
    )
    hostIP: str = field(
        5, doc="IP address of the node to which hostPort is bound. When empty: all addresses."
    )


class ContainerResizePolicy(Type):
    """Whether a container restarts when one of its resources is resized."""

    resourceName: str = field(
        1,
        always=True,
        required=True,
        doc="Resource that the policy applies to: cpu or memory. Each at most once.",
    )
    restartPolicy: str = field(
        2,
        always=True,
        required=True,
        doc=(
            "NotRequired: resize while the container runs. RestartContainer: restart it to apply "
            "the new amount; not allowed if the pod never restarts."
        ),
    )


class ContainerRestartRule(Type):
    """What happens when a container exits with certain codes."""

    action: str = field(
        1,
        required=True,
        doc=(
            "Restart restarts this container; RestartAllContainers restarts every container of "
            "the pod, init containers first."
        ),
    )
    exitCodes: ContainerRestartRuleOnExitCodes | None = field(
        2, doc="Exit codes that the rule applies to. It is required."
    )


class ContainerRestartRuleOnExitCodes(Type):
    """Matches the exit code of a container against a list."""

    operator: str = field(1, required=True, doc="In: the exit code is in values. NotIn: it is not.")
    values: list[int32] = field(
        2, set=True, doc="Exit codes to compare with, at most 255, without duplicates."
    )


class ResourceRequirements(Type):
    """Compute resources that a container, or a pod as a whole, requests and may use."""

    limits: dict[str, Quantity] = field(
        1,
        doc=(
            "Maximum of each resource, for example cpu: 500m, memory: 1Gi. A container above its "
            "memory limit is killed; above its cpu limit it is slowed. When absent: no limit."
        ),
    )
    requests: dict[str, Quantity] = field(
        2,
        doc=(
            "Amount of each resource that is reserved on the node, for example cpu: 250m. It "
            "cannot exceed the limit. When absent: the limit, or else nothing."
        ),
    )
    claims: list[ResourceClaim] = field(
        3,
        keys=("name",),
        doc=(
            "Entries of the pod's resourceClaims that the container uses. Not allowed for a pod "
            "as a whole."
        ),
    )


class ResourceClaim(Type):
    """A reference from a container to one of its pod's resource claims."""

    name: str = field(
        1, always=True, required=True, doc="Name of an entry in the pod's resourceClaims."
    )
    request: str = field(
        2,
        doc=(
            "Request of the claim whose devices the container gets. When empty: the devices of "
            "all requests."
        ),
    )


class VolumeMount(Type):
    """Where and how a volume of the pod is mounted in a container."""

    name: str = field(1, always=True, required=True, doc="Name of the volume in the pod's volumes.")
    readOnly: bool = field(2, doc="Mount the volume read-only in this container. Default: false.")
    recursiveReadOnly: str | None = field(
        7,
        doc=(
            "Whether mounts below this one are read-only too: Disabled, IfPossible or Enabled "
            "(fails if the node cannot). Needs readOnly. Default: Disabled."
        ),
    )
    mountPath: str = field(
        3,
        always=True,
        required=True,
        doc=(
            "Path in the container at which the volume is mounted. It must be unique in the "
            "container."
        ),
    )
    subPath: str = field(
        4,
        doc=(
            'File or directory of the volume to mount, relative to its root, without "..". When '
            "empty: the whole volume. Excludes subPathExpr."
        ),
    )
    mountPropagation: str | None = field(
        5,
        enum=("None", "HostToContainer", "Bidirectional"),
        doc=(
            "Whether later mounts pass between node and container: None, HostToContainer or "
            "Bidirectional (privileged containers only). Default: None."
        ),
    )
    subPathExpr: str = field(
        6,
        doc=(
            "Like subPath, but $(NAME) expands to an environment variable of the container. "
            "Excludes subPath."
        ),
    )
    bindMountOptions: list[str] = field(
        8,
        set=True,
        doc=(
            "Extra options of the bind mount: noexec, nodev, nosuid. Alpha: the server drops this "
            "field from new pods."
        ),
    )


class VolumeDevice(Type):
    """Where a block volume of the pod appears as a raw device in a container."""

    name: str = field(
        1,
        always=True,
        required=True,
        doc=(
            "Name of a volume in the pod that comes from a claim. The same volume must not be in "
            "volumeMounts."
        ),
    )
    devicePath: str = field(
        2,
        always=True,
        required=True,
        doc=(
            "Path of the device in the container, for example /dev/xvda. It must be unique and "
            'contain no "..".'
        ),
    )
