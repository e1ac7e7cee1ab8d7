"""Privileges of pods and containers."""

from __future__ import annotations

from kapiserver.api.types import Type, field, int64


class SecurityContext(Type):
    """Privileges of one container."""

    capabilities: Capabilities | None = field(1)
    privileged: bool | None = field(2)
    seLinuxOptions: SELinuxOptions | None = field(3)
    windowsOptions: WindowsSecurityContextOptions | None = field(10)
    runAsUser: int64 | None = field(4)
    runAsGroup: int64 | None = field(8)
    runAsNonRoot: bool | None = field(5)
    readOnlyRootFilesystem: bool | None = field(6)
    allowPrivilegeEscalation: bool | None = field(7)
    procMount: str | None = field(9, enum=("Default", "Unmasked"))
    seccompProfile: SeccompProfile | None = field(11)
    appArmorProfile: AppArmorProfile | None = field(12)


class PodSecurityContext(Type):
    """Privileges and owners that all containers of a pod share."""

    seLinuxOptions: SELinuxOptions | None = field(1)
    windowsOptions: WindowsSecurityContextOptions | None = field(8)
    runAsUser: int64 | None = field(2)
    runAsGroup: int64 | None = field(6)
    runAsNonRoot: bool | None = field(3)
    supplementalGroups: list[int64] = field(4)
    supplementalGroupsPolicy: str | None = field(12, enum=("Merge", "Strict"))
    fsGroup: int64 | None = field(5)
    sysctls: list[Sysctl] = field(7)
    fsGroupChangePolicy: str | None = field(9, enum=("OnRootMismatch", "Always"))
    seccompProfile: SeccompProfile | None = field(10)
    appArmorProfile: AppArmorProfile | None = field(11)
    seLinuxChangePolicy: str | None = field(13)


class SELinuxOptions(Type):
    """SELinux labels."""

    user: str = field(1)
    role: str = field(2)
    type: str = field(3)
    level: str = field(4)


class WindowsSecurityContextOptions(Type):
    """Settings for Windows containers."""

    gmsaCredentialSpecName: str | None = field(1)
    gmsaCredentialSpec: str | None = field(2)
    runAsUserName: str | None = field(3)
    hostProcess: bool | None = field(4)


class SeccompProfile(Type):
    """Which seccomp profile confines the process."""

    type: str = field(
        1, always=True, enum=("Unconfined", "RuntimeDefault", "Localhost"), required=True
    )
    localhostProfile: str | None = field(2)


class AppArmorProfile(Type):
    """Which AppArmor profile confines the process."""

    type: str = field(
        1, always=True, enum=("Unconfined", "RuntimeDefault", "Localhost"), required=True
    )
    localhostProfile: str | None = field(2)


class Capabilities(Type):
    """POSIX capabilities to add and to drop."""

    add: list[str] = field(1)
    drop: list[str] = field(2)


class Sysctl(Type):
    """A kernel parameter to set."""

    name: str = field(1, always=True, required=True)
    value: str = field(2, always=True, required=True)
