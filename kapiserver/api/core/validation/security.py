"""Validation of security contexts of pods and containers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kapiserver.api.core.v1 import SeccompProfile, SecurityContext
from kapiserver.api.core.validation.common import (
    INT32_MAX,
    all_containers,
    validate_local_descending_path,
    validate_range,
)
from kapiserver.api.core.validation.go_structs import as_go_struct
from kapiserver.api.core.validation.windows import validate_windows_options
from kapiserver.api.errors import (
    FieldError,
    Path,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    not_supported_in_order,
    required,
    too_long,
)
from kapiserver.api.types import Tree

_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
_PROC_MOUNTS = ("Default", "Unmasked")
_PATH_MAX = 4095
_SYSCTL_PART = r"[a-z0-9](?:[-_a-z0-9]*+(?<![-_]))?"
_SYSCTL = re.compile(rf"{_SYSCTL_PART}(?:[./]{_SYSCTL_PART})*+")
_SYSCTL_TEXT = "([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL_MAX = 253


def validate_container_security_context(
    context: Tree | None, path: Path, *, has_user_namespace: bool
) -> Iterator[FieldError]:
    """Validate the security context of a container. `has_user_namespace` tells whether its pod has
    a user namespace."""
    if context is None:
        return
    yield from _validate_users(context, path)
    mount = context.get("procMount")
    if mount is not None:
        if mount not in _PROC_MOUNTS:
            yield not_supported_in_order(path / "procMount", mount, _PROC_MOUNTS)
        if mount == "Unmasked" and not has_user_namespace:
            yield invalid(path / "procMount", mount, "`hostUsers` must be false to use `Unmasked`")
    yield from _validate_seccomp(context.get("seccompProfile"), path / "seccompProfile")
    if context.get("allowPrivilegeEscalation") is False:
        if context.get("privileged"):
            detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
            yield invalid(path, as_go_struct(context, SecurityContext), detail)
        if "CAP_SYS_ADMIN" in ((context.get("capabilities") or {}).get("add") or ()):
            detail = (
                "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` "
                "CAP_SYS_ADMIN"
            )
            yield invalid(path, as_go_struct(context, SecurityContext), detail)
    yield from validate_windows_options(context.get("windowsOptions"), path / "windowsOptions")
    yield from validate_app_armor_profile(context.get("appArmorProfile"), path / "appArmorProfile")


def _validate_users(context: Tree, path: Path) -> Iterator[FieldError]:
    for name in ("runAsUser", "runAsGroup"):
        yield from validate_range(context.get(name), 0, INT32_MAX, path / name)


def _validate_seccomp(profile: Tree | None, path: Path) -> Iterator[FieldError]:
    if profile is None:
        return
    type_, local = profile.get("type") or "", profile.get("localhostProfile")
    if not type_:
        yield required(path / "type", "type is required when seccompProfile is set")
    elif type_ not in _PROFILES:
        yield not_supported(path / "type", type_, _PROFILES)
    if type_ != "Localhost":
        if local is not None:
            value = as_go_struct(profile, SeccompProfile)
            detail = "can only be set when seccomp type is Localhost"
            yield invalid(path / "localhostProfile", value, detail)
    elif local is None:
        yield required(path / "localhostProfile", "must be set when seccomp type is Localhost")
    else:
        yield from validate_local_descending_path(local, path / "localhostProfile")


def validate_app_armor_profile(profile: Tree | None, path: Path) -> Iterator[FieldError]:
    """Validate an AppArmor profile."""
    if profile is None:
        return
    type_, local = profile.get("type") or "", profile.get("localhostProfile")
    localhost_profile_path = path / "localhostProfile"
    if not type_:
        yield required(path / "type", "type is required when appArmorProfile is set")
    elif type_ not in _PROFILES:
        yield not_supported(path / "type", type_, _PROFILES)
    elif type_ != "Localhost":
        if local is not None:
            yield invalid(
                localhost_profile_path, local, "can only be set when AppArmor type is Localhost"
            )
    elif not local:
        yield required(localhost_profile_path, "must be set when AppArmor type is Localhost")
    else:
        if local.strip() != local:
            yield invalid(localhost_profile_path, local, "must not be padded with whitespace")
        if len(local.encode()) > _PATH_MAX:
            yield too_long(localhost_profile_path, _PATH_MAX)


def validate_pod_security_context(spec: Tree, path: Path) -> Iterator[FieldError]:
    """Validate the security context of a pod. `path` is the path of the pod's spec."""
    context, security_context_path = spec.get("securityContext") or {}, path / "securityContext"
    yield from validate_range(
        context.get("fsGroup"), 0, INT32_MAX, security_context_path / "fsGroup"
    )
    yield from _validate_users(context, security_context_path)
    for index, group in enumerate(context.get("supplementalGroups") or ()):
        yield from validate_range(
            group, 0, INT32_MAX, (security_context_path / "supplementalGroups")[index]
        )
    if spec.get("hostPID") and spec.get("shareProcessNamespace"):
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield invalid(security_context_path / "shareProcessNamespace", True, detail)
    yield from _validate_sysctls(context.get("sysctls"), spec, security_context_path / "sysctls")
    yield from _validate_optional_enum(
        context, "fsGroupChangePolicy", ("Always", "OnRootMismatch"), security_context_path
    )
    yield from _validate_seccomp(
        context.get("seccompProfile"), security_context_path / "seccompProfile"
    )
    yield from validate_windows_options(
        context.get("windowsOptions"), security_context_path / "windowsOptions"
    )
    yield from validate_app_armor_profile(
        context.get("appArmorProfile"), security_context_path / "appArmorProfile"
    )
    yield from _validate_optional_enum(
        context, "supplementalGroupsPolicy", ("Merge", "Strict"), security_context_path
    )
    yield from _validate_optional_enum(
        context, "seLinuxChangePolicy", ("MountOption", "Recursive"), security_context_path
    )


def _validate_optional_enum(
    context: Tree, name: str, allowed: tuple[str, ...], path: Path
) -> Iterator[FieldError]:
    value = context.get(name)
    if value is not None and value not in allowed:
        yield not_supported(path / name, value, allowed)


def validate_host_users(spec: Tree, path: Path) -> Iterator[FieldError]:
    """Validate a pod with hostUsers false: it must not use host namespaces or raw block devices."""
    if spec.get("hostUsers") is not False:
        return
    for name, field_name in _NAMESPACES:
        if spec.get(name):
            yield forbidden(path / field_name, _HOST_USERS_FALSE)
    for container, container_path in all_containers(spec, path):
        if container.get("volumeDevices"):
            yield forbidden(container_path / "volumeDevices", _HOST_USERS_FALSE)


_HOST_USERS_FALSE = "when `hostUsers` is false"
_NAMESPACES = (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC"))


def _validate_sysctls(sysctls: list[Tree] | None, spec: Tree, path: Path) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, sysctl in enumerate(sysctls or ()):
        name_path, name = path[index] / "name", sysctl.get("name") or ""
        if not name:
            yield required(name_path)
        elif len(name) > _SYSCTL_MAX or not _SYSCTL.fullmatch(name):
            detail = f"must have at most {_SYSCTL_MAX} characters and match regex ^{_SYSCTL_TEXT}$"
            yield invalid(name_path, name, detail)
        elif name in seen:
            yield duplicate(name_path, name)
        dotted_name = _dotted_sysctl(name)
        if spec.get("hostNetwork") and dotted_name.startswith("net."):
            yield invalid(name_path, name, "may not be specified when 'hostNetwork' is true")
        elif spec.get("hostIPC") and (
            dotted_name == "kernel.sem" or dotted_name.startswith(_IPC_SYSCTLS)
        ):
            yield invalid(name_path, name, "may not be specified when 'hostIPC' is true")
        seen.add(name)


_IPC_SYSCTLS = ("kernel.shm", "kernel.msg", "fs.mqueue.")


def _dotted_sysctl(name: str) -> str:
    # The first separator of a sysctl decides: after a slash, slashes separate and dots are literal.
    dot, slash = name.find("."), name.find("/")
    if slash < 0 or 0 <= dot < slash:
        return name
    return name.translate(str.maketrans("./", "/."))
