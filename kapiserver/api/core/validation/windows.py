"""Validation of pods that name their operating system, and of Windows options."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kapiserver.api import names
from kapiserver.api.core.validation.common import all_containers
from kapiserver.api.errors import FieldError, Path, forbidden, invalid, not_supported, required
from kapiserver.api.types import Tree

_SYSTEMS = ("linux", "windows")
_CREDENTIALS_KIB = 64
_DOMAIN_MAX = 256
_USER_MAX = 104
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_NETBIOS = re.compile(r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}')
_DNS_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_DNS = re.compile(rf"{_DNS_LABEL}(?:\.{_DNS_LABEL})*")
_NOT_IN_USERS = frozenset('"/\\:;|=,+*?<>@[]')
_POD_FIELDS = (
    # (object of the spec, or "" for the spec itself; field)
    ("securityContext", "appArmorProfile"), ("securityContext", "seLinuxOptions"),
    ("", "hostUsers"), ("", "hostPID"), ("", "hostIPC"), ("securityContext", "seccompProfile"),
    ("securityContext", "fsGroup"), ("securityContext", "fsGroupChangePolicy"),
    ("securityContext", "sysctls"), ("", "shareProcessNamespace"),
    ("securityContext", "runAsUser"), ("securityContext", "runAsGroup"),
    ("securityContext", "supplementalGroups"), ("securityContext", "supplementalGroupsPolicy"),
    ("securityContext", "seLinuxChangePolicy"),
)  # fmt: skip
_CONTAINER_FIELDS = (
    "appArmorProfile", "seLinuxOptions", "seccompProfile", "capabilities",
    "readOnlyRootFilesystem", "privileged", "allowPrivilegeEscalation", "procMount", "runAsUser",
    "runAsGroup",
)  # fmt: skip


def validate_windows_options(options: Tree | None, path: Path) -> Iterator[FieldError]:
    """Validate the Windows options of a security context."""
    if options is None:
        return
    name, credentials = options.get("gmsaCredentialSpecName"), options.get("gmsaCredentialSpec")
    if name is not None:
        for message in names.dns1123_subdomain(name):
            yield invalid(path / "gmsaCredentialSpecName", name, message)
    if credentials is not None:
        spec_path = path / "gmsaCredentialSpec"
        if not credentials:
            yield invalid(spec_path, credentials, "gmsaCredentialSpec cannot be an empty string")
        elif len(credentials.encode()) > _CREDENTIALS_KIB * 1024:
            detail = f"gmsaCredentialSpec size must be under {_CREDENTIALS_KIB} KiB"
            yield invalid(spec_path, credentials, detail)
    user = options.get("runAsUserName")
    if user is not None:
        for detail in _user_name_problems(user):
            yield invalid(path / "runAsUserName", user, detail)


def _user_name_problems(text: str) -> Iterator[str]:
    if not text:
        yield "runAsUserName cannot be an empty string"
    elif _CONTROL.search(text):
        yield "runAsUserName cannot contain control characters"
    elif text.count("\\") > 1:
        yield "runAsUserName cannot contain more than one backslash"
    else:
        domain, backslash, user = text.rpartition("\\")
        if len(domain.encode()) >= _DOMAIN_MAX:
            yield f"runAsUserName's Domain length must be under {_DOMAIN_MAX} characters"
        if backslash and not (_NETBIOS.fullmatch(domain) or _DNS.fullmatch(domain)):
            yield "runAsUserName's Domain doesn't match the NetBios nor the DNS format"
        if not user:
            yield "runAsUserName's User cannot be empty"
        elif len(user.encode()) > _USER_MAX:
            yield f"runAsUserName's User length must not be longer than {_USER_MAX} characters"
        if user and not user.strip(". "):
            yield "runAsUserName's User cannot contain only periods or spaces"
        if not _NOT_IN_USERS.isdisjoint(user):
            yield (
                "runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]"
            )


def _host_process(holder: Tree) -> bool | None:
    options = (holder.get("securityContext") or {}).get("windowsOptions") or {}
    host_process: bool | None = options.get("hostProcess")
    return host_process


def validate_windows_host_process(spec: Tree, path: Path) -> Iterator[FieldError]:
    """Validate that either all containers are HostProcess containers on the host network, or
    none."""
    pod_value, host_process_count, container_count = _host_process(spec), 0, 0
    for container, container_path in all_containers(spec, path):
        value = _host_process(container)
        if pod_value is not None and value is not None and value != pod_value:
            pod_text = str(pod_value).lower()
            detail = (
                f"pod hostProcess value must be identical if both are specified, was {pod_text}"
            )
            yield invalid(
                container_path / "securityContext" / "windowsOptions" / "hostProcess", value, detail
            )
        container_count += 1
        host_process_count += bool(value if value is not None else pod_value)
    if not host_process_count:
        return
    if host_process_count != container_count:
        detail = (
            "If pod contains any hostProcess containers then all containers must be HostProcess "
            "containers"
        )
        yield invalid(path, "", detail)
    if not spec.get("hostNetwork"):
        detail = "hostNetwork must be true if pod contains any hostProcess containers"
        yield invalid(path / "hostNetwork", False, detail)


def validate_os(spec: Tree, path: Path) -> Iterator[FieldError]:
    """Validate a pod for its operating system: fields of other systems must not be set."""
    name = spec["os"].get("name")
    if not name:
        yield required(path / "os" / "name", "cannot be empty")
    elif name not in _SYSTEMS:
        yield not_supported(path / "os", name, _SYSTEMS)
    elif name == "linux":
        detail = "windows options cannot be set for a linux pod"
        for holder, holder_path in ((spec, path), *all_containers(spec, path)):
            if (holder.get("securityContext") or {}).get("windowsOptions") is not None:
                yield forbidden(holder_path / "securityContext" / "windowsOptions", detail)
    else:
        yield from _validate_windows_pod(spec, path)


def _validate_windows_pod(spec: Tree, path: Path) -> Iterator[FieldError]:
    detail = "cannot be set for a windows pod"
    for part, name in _POD_FIELDS:
        holder = (spec.get(part) or {}) if part else spec
        value = holder.get(name)
        if value or (value is not None and name not in _ZERO_IS_UNSET):
            yield forbidden(path / part / name if part else path / name, detail)
    for container, container_path in all_containers(spec, path):
        context = container.get("securityContext") or {}
        for name in _CONTAINER_FIELDS:
            if context.get(name) is not None:
                yield forbidden(container_path / "securityContext" / name, detail)


_ZERO_IS_UNSET = ("hostPID", "hostIPC", "sysctls")
"""Fields whose zero value means unset."""
