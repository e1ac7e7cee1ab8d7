"""Privileges of pods and containers."""

from __future__ import annotations

from kapiserver.api.types import Type, field, int64


class SecurityContext(Type):
    """Privileges of one container."""

    capabilities: Capabilities | None = field(1, doc="What processes may do.")
    privileged: bool | None = field(2, doc="Whether it may do what the node may.")
    seLinuxOptions: SELinuxOptions | None = field(3, doc="The labels of SELinux.")
    windowsOptions: WindowsSecurityContextOptions | None = field(
        10, doc="What counts on Windows alone."
    )
    runAsUser: int64 | None = field(4, doc="The user id that processes run as.")
    runAsGroup: int64 | None = field(8, doc="The group id that processes run as.")
    runAsNonRoot: bool | None = field(5, doc="Whether user 0 is refused.")
    readOnlyRootFilesystem: bool | None = field(6, doc="Whether its own files cannot change.")
    allowPrivilegeEscalation: bool | None = field(
        7, doc="Whether processes may get more rights than they have."
    )
    procMount: str | None = field(9, enum=("Default", "Unmasked"), doc="Default or Unmasked.")
    seccompProfile: SeccompProfile | None = field(11, doc="Which system calls are let through.")
    appArmorProfile: AppArmorProfile | None = field(12, doc="Which AppArmor profile is used.")


class PodSecurityContext(Type):
    """Privileges and owners that all containers of a pod share."""

    seLinuxOptions: SELinuxOptions | None = field(1, doc="The labels of SELinux.")
    windowsOptions: WindowsSecurityContextOptions | None = field(
        8, doc="What counts on Windows alone."
    )
    runAsUser: int64 | None = field(2, doc="The user id that processes run as.")
    runAsGroup: int64 | None = field(6, doc="The group id that processes run as.")
    runAsNonRoot: bool | None = field(3, doc="Whether user 0 is refused.")
    supplementalGroups: list[int64] = field(4, doc="Further group ids.")
    supplementalGroupsPolicy: str | None = field(
        12, enum=("Merge", "Strict"), doc="Merge or Strict: whether the image's groups count."
    )
    fsGroup: int64 | None = field(5, doc="The group that owns its volumes.")
    sysctls: list[Sysctl] = field(7, doc="Parameters of the kernel.")
    fsGroupChangePolicy: str | None = field(
        9, enum=("OnRootMismatch", "Always"), doc="OnRootMismatch or Always."
    )
    seccompProfile: SeccompProfile | None = field(10, doc="Which system calls are let through.")
    appArmorProfile: AppArmorProfile | None = field(11, doc="Which AppArmor profile is used.")
    seLinuxChangePolicy: str | None = field(13, doc="MountOption or Recursive.")


class SELinuxOptions(Type):
    """SELinux labels."""

    user: str = field(1, doc="The user's part of the label.")
    role: str = field(2, doc="The role's part of the label.")
    type: str = field(3, doc="The type's part of the label.")
    level: str = field(4, doc="The level's part of the label.")


class WindowsSecurityContextOptions(Type):
    """Settings for Windows containers."""

    gmsaCredentialSpecName: str | None = field(1, doc="The GMSA credential, by name.")
    gmsaCredentialSpec: str | None = field(2, doc="The GMSA credential itself.")
    runAsUserName: str | None = field(3, doc="The user that processes run as.")
    hostProcess: bool | None = field(4, doc="Whether it runs on the node itself.")


class SeccompProfile(Type):
    """Which seccomp profile confines the process."""

    type: str = field(
        1,
        always=True,
        enum=("Unconfined", "RuntimeDefault", "Localhost"),
        required=True,
        doc="Unconfined, RuntimeDefault or Localhost.",
    )
    localhostProfile: str | None = field(2, doc="The profile's file, below the kubelet's folder.")


class AppArmorProfile(Type):
    """Which AppArmor profile confines the process."""

    type: str = field(
        1,
        always=True,
        enum=("Unconfined", "RuntimeDefault", "Localhost"),
        required=True,
        doc="Unconfined, RuntimeDefault or Localhost.",
    )
    localhostProfile: str | None = field(2, doc="The profile's name on the node.")


class Capabilities(Type):
    """POSIX capabilities to add and to drop."""

    add: list[str] = field(1, doc="What processes may do in addition.")
    drop: list[str] = field(2, doc="What processes may not do.")


class Sysctl(Type):
    """A kernel parameter to set."""

    name: str = field(1, always=True, required=True, doc="Its name.")
    value: str = field(2, always=True, required=True, doc="Its value.")
