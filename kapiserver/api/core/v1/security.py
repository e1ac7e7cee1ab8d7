"""Security contexts: users, groups and privileges of pods and containers."""

from __future__ import annotations

from kapiserver.api.types import Type, field, int64


class SecurityContext(Type):
    """Privileges of one container. Its fields override those of the pod's context."""

    capabilities: Capabilities | None = field(
        1,
        doc=(
            "POSIX capabilities to add to the runtime's default set and to drop from it. Not for "
            "Windows."
        ),
    )
    privileged: bool | None = field(
        2,
        doc=(
            "Give the container nearly all rights that root has on the node. Default: false. Not "
            "for Windows."
        ),
    )
    seLinuxOptions: SELinuxOptions | None = field(
        3,
        doc=(
            "SELinux label of the container. When absent: the pod's, or else a random one for "
            "each container. Not for Windows."
        ),
    )
    windowsOptions: WindowsSecurityContextOptions | None = field(
        10, doc="Settings that apply to Windows only. Rejected when spec.os.name is linux."
    )
    runAsUser: int64 | None = field(
        4,
        doc=(
            "User ID of the container's processes. When absent: the pod's, or else the image's. "
            "Not for Windows."
        ),
    )
    runAsGroup: int64 | None = field(
        8,
        doc=(
            "Primary group ID of the container's processes. When absent: the pod's, or else the "
            "runtime's default. Not for Windows."
        ),
    )
    runAsNonRoot: bool | None = field(
        5, doc="Refuse to start the container as user ID 0. When absent: as the pod says, or false."
    )
    readOnlyRootFilesystem: bool | None = field(
        6,
        doc=(
            "Mount the container's root filesystem read-only; volumes stay as they are. Default: "
            "false. Not for Windows."
        ),
    )
    allowPrivilegeEscalation: bool | None = field(
        7,
        doc=(
            "Whether processes can gain more privileges than their parent. Always true with "
            "privileged or CAP_SYS_ADMIN. Default: true. Not for Windows."
        ),
    )
    procMount: str | None = field(
        9,
        enum=("Default", "Unmasked"),
        doc=(
            "Default masks sensitive paths of /proc. Unmasked does not, and needs hostUsers: "
            "false. When absent: Default. Not for Windows."
        ),
    )
    seccompProfile: SeccompProfile | None = field(
        11,
        doc=(
            "Seccomp profile that filters the container's system calls. When absent: the pod's. "
            "Not for Windows."
        ),
    )
    appArmorProfile: AppArmorProfile | None = field(
        12, doc="AppArmor profile of the container. When absent: the pod's. Not for Windows."
    )


class PodSecurityContext(Type):
    """Users, groups and privileges that apply to all containers of a pod."""

    seLinuxOptions: SELinuxOptions | None = field(
        1,
        doc=(
            "SELinux label of all containers and of volumes that support it. When absent: a "
            "random one for each container. Not for Windows."
        ),
    )
    windowsOptions: WindowsSecurityContextOptions | None = field(
        8,
        doc=(
            "Settings for all containers that apply to Windows only. Rejected when spec.os.name "
            "is linux."
        ),
    )
    runAsUser: int64 | None = field(
        2,
        doc=(
            "User ID of all containers' processes, unless a container sets its own. When absent: "
            "that of each image. Not for Windows."
        ),
    )
    runAsGroup: int64 | None = field(
        6,
        doc=(
            "Primary group ID of all containers' processes, unless a container sets its own. Not "
            "for Windows."
        ),
    )
    runAsNonRoot: bool | None = field(
        3,
        doc=(
            "Refuse to start any container as user ID 0. Default: false. A container can set its "
            "own."
        ),
    )
    supplementalGroups: list[int64] = field(
        4,
        doc=(
            "Further group IDs of every container's first process. supplementalGroupsPolicy "
            "decides whether those of the image count too. Not for Windows."
        ),
    )
    supplementalGroupsPolicy: str | None = field(
        12,
        enum=("Merge", "Strict"),
        doc=(
            "Merge: add the groups that the image's /etc/group gives the user. Strict: use the "
            "pod's groups only. When absent: Merge. Not for Windows."
        ),
    )
    fsGroup: int64 | None = field(
        5,
        doc=(
            "Group ID that owns the volumes which support it; their new files belong to it, and "
            "processes are members. When absent: volumes keep their owners. Not for Windows."
        ),
    )
    sysctls: list[Sysctl] = field(
        7,
        doc=(
            "Kernel parameters to set in the namespaces of the pod. Those that the kubelet does "
            "not allow make the pod fail. Not for Windows."
        ),
    )
    fsGroupChangePolicy: str | None = field(
        9,
        enum=("OnRootMismatch", "Always"),
        doc=(
            "When volumes are given to fsGroup. OnRootMismatch: only if the root directory "
            "differs. Always: each time. When absent: Always. Not for Windows."
        ),
    )
    seccompProfile: SeccompProfile | None = field(
        10,
        doc="Seccomp profile of all containers, unless a container sets its own. Not for Windows.",
    )
    appArmorProfile: AppArmorProfile | None = field(
        11,
        doc=(
            "AppArmor profile of all containers, unless a container sets its own. Not for Windows."
        ),
    )
    seLinuxChangePolicy: str | None = field(
        13,
        doc=(
            "How volumes get the SELinux label. MountOption: by a mount option, at once. "
            "Recursive: file by file, so that pods with different labels can share a volume. When "
            "absent: the kubelet decides by volume."
        ),
    )


class SELinuxOptions(Type):
    """The parts of an SELinux label."""

    user: str = field(1, doc="User of the SELinux label, for example system_u.")
    role: str = field(2, doc="Role of the SELinux label, for example system_r.")
    type: str = field(
        3,
        doc=(
            "Type of the SELinux label, for example container_t. It decides what processes can "
            "access."
        ),
    )
    level: str = field(4, doc="Level of the SELinux label, for example s0:c123,c456.")


class WindowsSecurityContextOptions(Type):
    """Settings of a security context that apply to Windows only."""

    gmsaCredentialSpecName: str | None = field(
        1, doc="Name of the GMSACredentialSpec object to use."
    )
    gmsaCredentialSpec: str | None = field(
        2,
        doc=(
            "Content of the GMSA credential spec, at most 64 KiB. A webhook fills it in from "
            "gmsaCredentialSpecName."
        ),
    )
    runAsUserName: str | None = field(
        3,
        doc=(
            "User name of the container's processes, for example ContainerUser or DOMAIN\\user. "
            "When absent: the image's user."
        ),
    )
    hostProcess: bool | None = field(
        4,
        doc=(
            "Run the container as a process of the Windows node. Needs hostNetwork, and all "
            "containers of a pod must agree. Default: false."
        ),
    )


class SeccompProfile(Type):
    """The seccomp profile that filters system calls."""

    type: str = field(
        1,
        always=True,
        enum=("Unconfined", "RuntimeDefault", "Localhost"),
        required=True,
        doc=(
            "RuntimeDefault: the profile of the container runtime. Localhost: the file in "
            "localhostProfile. Unconfined: no seccomp filter."
        ),
    )
    localhostProfile: str | None = field(
        2,
        doc=(
            'Profile file on the node, relative to the kubelet\'s seccomp directory, without "..". '
            "Required for Localhost, otherwise forbidden."
        ),
    )


class AppArmorProfile(Type):
    """The AppArmor profile that confines processes."""

    type: str = field(
        1,
        always=True,
        enum=("Unconfined", "RuntimeDefault", "Localhost"),
        required=True,
        doc=(
            "RuntimeDefault: the AppArmor profile of the container runtime. Localhost: the one in "
            "localhostProfile. Unconfined: none."
        ),
    )
    localhostProfile: str | None = field(
        2,
        doc=(
            "Name of a profile that is loaded on the node, at most 4095 bytes. Required for "
            "Localhost, otherwise forbidden."
        ),
    )


class Capabilities(Type):
    """POSIX capabilities to add and to drop."""

    add: list[str] = field(
        1,
        doc=(
            "Capabilities to add, without the prefix CAP_, for example NET_BIND_SERVICE. ALL adds "
            "every one."
        ),
    )
    drop: list[str] = field(
        2,
        doc=(
            "Capabilities to drop, without the prefix CAP_, for example NET_RAW. ALL drops every "
            "one."
        ),
    )


class Sysctl(Type):
    """A kernel parameter to set for a pod."""

    name: str = field(
        1,
        always=True,
        required=True,
        doc=(
            "Name of the parameter, for example net.ipv4.ip_local_port_range. Unique in the pod, "
            "at most 253 characters."
        ),
    )
    value: str = field(
        2, always=True, required=True, doc="Value of the kernel parameter, for example 1024 65535."
    )
