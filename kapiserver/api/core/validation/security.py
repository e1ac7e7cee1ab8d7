"""Rules for security contexts of pods and containers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kapiserver.api.core.validation.common import INT32_MAX, checked, chosen, descending, in_range
from kapiserver.api.errors import FieldError, Path, duplicate, invalid, not_supported, required
from kapiserver.api.types import Tree

_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
_SYSCTL_PART = r"[a-z0-9](?:[-_a-z0-9]*+(?<![-_]))?"
_SYSCTL = re.compile(rf"{_SYSCTL_PART}(?:[./]{_SYSCTL_PART})*+")
_SYSCTL_TEXT = "([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL_MAX = 253


def container_security(context: Tree | None, path: Path) -> Iterator[FieldError]:
    """The security context of one container."""
    if context is None:
        return
    yield from _users(context, path)
    yield from _profile(context.get("seccompProfile"), path / "seccompProfile", "seccomp")
    yield from _profile(context.get("appArmorProfile"), path / "appArmorProfile", "AppArmor")
    if context.get("allowPrivilegeEscalation") is False:
        if context.get("privileged"):
            detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
            yield invalid(path, context, detail)
        if "CAP_SYS_ADMIN" in ((context.get("capabilities") or {}).get("add") or ()):
            detail = (
                "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` "
                "CAP_SYS_ADMIN"
            )
            yield invalid(path, context, detail)
    yield from chosen(
        context.get("procMount"), ("Default", "Unmasked"), path / "procMount", optional=True
    )


def _users(context: Tree, path: Path) -> Iterator[FieldError]:
    for name in ("runAsUser", "runAsGroup"):
        yield from in_range(context.get(name), 0, INT32_MAX, path / name)


def _profile(profile: Tree | None, path: Path, what: str) -> Iterator[FieldError]:
    if profile is None:
        return
    type_, local = profile.get("type") or "", profile.get("localhostProfile")
    if not type_:
        field = "seccompProfile" if what == "seccomp" else "appArmorProfile"
        yield required(path / "type", f"type is required when {field} is set")
    elif type_ not in _PROFILES:
        yield not_supported(path / "type", type_, _PROFILES)
    if type_ == "Localhost":
        if local is None:
            detail = f"must be set when {what} type is Localhost"
            yield required(path / "localhostProfile", detail)
        elif what == "seccomp":
            yield from descending(local, path / "localhostProfile")
    elif local is not None:
        detail = f"can only be set when {what} type is Localhost"
        yield invalid(path / "localhostProfile", local, detail)


def pod_security(spec: Tree, path: Path) -> Iterator[FieldError]:
    """The security context of a pod; `path` is that of its spec."""
    context = spec.get("securityContext")
    if spec.get("hostPID") and spec.get("shareProcessNamespace"):
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield invalid(path / "shareProcessNamespace", True, detail)
    if context is None:
        return
    at = path / "securityContext"
    yield from in_range(context.get("fsGroup"), 0, INT32_MAX, at / "fsGroup")
    yield from _users(context, at)
    for index, group in enumerate(context.get("supplementalGroups") or ()):
        yield from in_range(group, 0, INT32_MAX, (at / "supplementalGroups")[index])
    yield from chosen(
        context.get("supplementalGroupsPolicy"),
        ("Merge", "Strict"),
        at / "supplementalGroupsPolicy",
        optional=True,
    )
    yield from _sysctls(context.get("sysctls"), at / "sysctls")
    policies = ("Always", "OnRootMismatch")
    policy = context.get("fsGroupChangePolicy")
    yield from chosen(policy, policies, at / "fsGroupChangePolicy", optional=True)
    yield from _profile(context.get("seccompProfile"), at / "seccompProfile", "seccomp")
    yield from _profile(context.get("appArmorProfile"), at / "appArmorProfile", "AppArmor")


def _sysctls(sysctls: list[Tree] | None, path: Path) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, one in enumerate(sysctls or ()):
        at, name = path[index] / "name", one.get("name") or ""
        if not name:
            yield required(at)
        else:
            yield from checked(_sysctl_name, name, at)
        key = name.replace("/", ".")
        if key in seen:
            yield duplicate(at, name)
        seen.add(key)


def _sysctl_name(name: str) -> list[str]:
    if len(name) <= _SYSCTL_MAX and _SYSCTL.fullmatch(name):
        return []
    return [f"must have at most {_SYSCTL_MAX} characters and match regex ^{_SYSCTL_TEXT}$"]
