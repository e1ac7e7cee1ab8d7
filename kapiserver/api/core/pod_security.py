"""The Pod Security Standards: what keeps a pod from being baseline or restricted. Pure.

Mirrors k8s.io/pod-security-admission/policy, with its words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from kapiserver.api.core.validation.volumes import SOURCES
from kapiserver.api.objects import annotations_of, value_at
from kapiserver.api.types import Tree

Level: TypeAlias = Literal["privileged", "baseline", "restricted"]
LEVELS: tuple[Level, ...] = ("privileged", "baseline", "restricted")
LATEST = 10**6
"""The minor version that is newer than any."""


@dataclass(frozen=True, slots=True)
class Violation:
    """Why a pod does not meet a standard."""

    reason: str
    detail: str

    def __str__(self) -> str:
        return f"{self.reason} ({self.detail})"


Found: TypeAlias = "Iterator[Violation]"


def violations(pod: Tree, level: Level, minor: int) -> list[Violation]:
    """Why a pod, or a template of one, does not meet a level as it was in version 1.`minor`."""
    if level == "privileged":
        return []
    found: list[Violation] = []
    for check in _checks(level, minor):
        if check.since <= minor:
            found.extend(check.find(pod, minor))
    return found


def _spec(pod: Tree) -> Tree:
    return pod.get("spec") or {}


def _containers(pod: Tree) -> list[Tree]:
    kinds = ("initContainers", "containers", "ephemeralContainers")
    return [one for kind in kinds for one in _spec(pod).get(kind) or ()]


def _context(holder: Tree) -> Tree:
    return holder.get("securityContext") or {}


def _is_windows(pod: Tree, minor: int) -> bool:
    return minor >= 25 and value_at(_spec(pod), "os", "name") == "windows"


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _names(containers: Sequence[Tree]) -> str:
    word = "container" if len(containers) == 1 else "containers"
    return f"{word} {_quoted(container.get('name') or '' for container in containers)}"


def _setters(pod: Tree, is_bad: Callable[[Tree], bool]) -> str:
    """The pod and those of its containers whose security context is bad; "" where none is."""
    found = ["pod"] if is_bad(_context(_spec(pod))) else []
    bad = [one for one in _containers(pod) if is_bad(_context(one))]
    return " and ".join([*found, _names(bad)] if bad else found)


def _holders(pod: Tree) -> list[Tree]:
    return [_context(_spec(pod)), *map(_context, _containers(pod))]


# Baseline.


def _app_armor(pod: Tree, _: int) -> Found:
    allowed = (None, "RuntimeDefault", "Localhost")

    def is_bad(context: Tree) -> bool:
        return value_at(context, "appArmorProfile", "type") not in allowed

    holders = [_context(_spec(pod)), *map(_context, _containers(pod))]
    values = sorted(
        {value_at(holder, "appArmorProfile", "type") for holder in holders if is_bad(holder)}
    )
    setters = [text for text in (_setters(pod, is_bad),) if text]
    prefix = "container.apparmor.security.beta.kubernetes.io/"
    annotations = [
        f'{key}="{value}"'
        for key, value in sorted(annotations_of(pod).items())
        if key.startswith(prefix)
        and value not in ("", "runtime/default")
        and not value.startswith("localhost/")
    ]
    if annotations:
        setters.append("annotation" if len(annotations) == 1 else "annotations")
    if setters:
        values += annotations
        word = "profile" if len(values) == 1 else "profiles"
        detail = f"{' and '.join(setters)} must not set AppArmor profile type to {_quoted(values)}"
        yield Violation(f"forbidden AppArmor {word}", detail)


_USUAL_CAPABILITIES = frozenset(
    (
        "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD",
        "NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
    )
)  # fmt: skip


def _added(pod: Tree, allowed: frozenset[str]) -> str:
    """What containers add to their capabilities beside those allowed."""
    bad, names = [], set()
    for container in _containers(pod):
        extra = set(value_at(_context(container), "capabilities", "add") or ()) - allowed
        if extra:
            bad.append(container)
            names |= extra
    if not bad:
        return ""
    listed = _quoted(sorted(names))
    return f"{_names(bad)} must not include {listed} in securityContext.capabilities.add"


def _capabilities(pod: Tree, _: int) -> Found:
    detail = _added(pod, _USUAL_CAPABILITIES)
    if detail:
        yield Violation("non-default capabilities", detail)


def _host_namespaces(pod: Tree, _: int) -> Found:
    found = [name for name in ("hostNetwork", "hostPID", "hostIPC") if _spec(pod).get(name)]
    if found:
        yield Violation("host namespaces", ", ".join(f"{name}=true" for name in found))


def _host_paths(pod: Tree, _: int) -> Found:
    bad = [
        volume.get("name") or ""
        for volume in _spec(pod).get("volumes") or ()
        if volume.get("hostPath") is not None
    ]
    if bad:
        word = "volume" if len(bad) == 1 else "volumes"
        yield Violation("hostPath volumes", f"{word} {_quoted(bad)}")


def _host_ports(pod: Tree, _: int) -> Found:
    bad, ports = [], set()
    for container in _containers(pod):
        own = {port["hostPort"] for port in container.get("ports") or () if port.get("hostPort")}
        if own:
            bad.append(container)
            ports |= own
    if bad:
        uses = "uses" if len(bad) == 1 else "use"
        word = "hostPort" if len(ports) == 1 else "hostPorts"
        listed = ", ".join(sorted(map(str, ports)))
        yield Violation("hostPort", f"{_names(bad)} {uses} {word} {listed}")


_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HOOKS = ("postStart", "preStop")


def _probe_hosts(pod: Tree, _: int) -> Found:
    bad, hosts = [], set()
    for container in _containers(pod):
        handlers = [container.get(name) or {} for name in _PROBES]
        handlers += [value_at(container, "lifecycle", name) or {} for name in _HOOKS]
        own = {
            value_at(handler, action, "host")
            for handler in handlers
            for action in ("httpGet", "tcpSocket")
        } - {None, ""}
        if own:
            bad.append(container)
            hosts |= own
    if bad:
        uses = "uses" if len(bad) == 1 else "use"
        word = "host" if len(hosts) == 1 else "hosts"
        bad.sort(key=lambda one: str(one.get("name")))
        detail = f"{_names(bad)} {uses} probe or lifecycle {word} {_quoted(sorted(hosts))}"
        yield Violation("probe or lifecycle host", detail)


def _privileged(pod: Tree, _: int) -> Found:
    bad = [one for one in _containers(pod) if _context(one).get("privileged")]
    if bad:
        yield Violation("privileged", f"{_names(bad)} must not set securityContext.privileged=true")


def _has_own_users(pod: Tree, minor: int) -> bool:
    """Whether a user of the pod, root even, is none of its node."""
    return minor >= 35 and _spec(pod).get("hostUsers") is False


def _proc_mount_baseline(pod: Tree, minor: int) -> Found:
    if not _has_own_users(pod, minor):
        yield from _proc_mount(pod, minor)


def _proc_mount(pod: Tree, _: int) -> Found:
    bad = [
        one for one in _containers(pod) if _context(one).get("procMount") not in (None, "Default")
    ]
    if bad:
        values = _quoted(sorted({_context(one)["procMount"] for one in bad}))
        yield Violation(
            "procMount", f"{_names(bad)} must not set securityContext.procMount to {values}"
        )


_SELINUX_TYPES = ("", "container_t", "container_init_t", "container_kvm_t")


def _selinux(pod: Tree, minor: int) -> Found:
    allowed = (*_SELINUX_TYPES, "container_engine_t") if minor >= 31 else _SELINUX_TYPES

    def options(context: Tree) -> Tree:
        return context.get("seLinuxOptions") or {}

    def is_bad(context: Tree) -> bool:
        own = options(context)
        return (own.get("type") or "") not in allowed or bool(own.get("user") or own.get("role"))

    setters = _setters(pod, is_bad)
    if not setters:
        return
    found = [options(context) for context in _holders(pod)]
    types = sorted({one.get("type") or "" for one in found} - set(allowed))
    data = [f"{'type' if len(types) == 1 else 'types'} {_quoted(types)}"] if types else []
    for name in ("user", "role"):
        if any(one.get(name) for one in found):
            data.append(f"{name} may not be set")
    detail = f"{setters} set forbidden securityContext.seLinuxOptions: {'; '.join(data)}"
    yield Violation("seLinuxOptions", detail)


def _seccomp_set(pod: Tree, allowed: tuple[str | None, ...]) -> Found:
    def is_bad(context: Tree) -> bool:
        return value_at(context, "seccompProfile", "type") not in allowed

    setters = _setters(pod, is_bad)
    if setters:
        values = {value_at(one, "seccompProfile", "type") for one in _holders(pod) if is_bad(one)}
        listed = _quoted(sorted(values))
        detail = f"{setters} must not set securityContext.seccompProfile.type to {listed}"
        yield Violation("seccompProfile", detail)


def _seccomp_baseline(pod: Tree, _: int) -> Found:
    return _seccomp_set(pod, (None, "RuntimeDefault", "Localhost"))


_SYSCTLS = {
    "kernel.shm_rmid_forced": 0, "net.ipv4.ip_local_port_range": 0, "net.ipv4.tcp_syncookies": 0,
    "net.ipv4.ping_group_range": 0, "net.ipv4.ip_unprivileged_port_start": 0,
    "net.ipv4.ip_local_reserved_ports": 27, "net.ipv4.tcp_keepalive_time": 29,
    "net.ipv4.tcp_fin_timeout": 29, "net.ipv4.tcp_keepalive_intvl": 29,
    "net.ipv4.tcp_keepalive_probes": 29, "net.ipv4.tcp_rmem": 32, "net.ipv4.tcp_wmem": 32,
}  # fmt: skip
"""Those allowed, and since which version."""


def _sysctls(pod: Tree, minor: int) -> Found:
    names = [sysctl.get("name") or "" for sysctl in _context(_spec(pod)).get("sysctls") or ()]
    bad = [name for name in names if _SYSCTLS.get(name, LATEST + 1) > minor]
    if bad:
        yield Violation("forbidden sysctls", ", ".join(bad))


def _host_process(pod: Tree, _: int) -> Found:
    setters = _setters(pod, lambda one: bool(value_at(one, "windowsOptions", "hostProcess")))
    if setters:
        detail = f"{setters} must not set securityContext.windowsOptions.hostProcess=true"
        yield Violation("hostProcess", detail)


# Restricted.


def _escalation(pod: Tree, minor: int) -> Found:
    if _is_windows(pod, minor):
        return
    bad = [
        one
        for one in _containers(pod)
        if _context(one).get("allowPrivilegeEscalation") is not False
    ]
    if bad:
        detail = f"{_names(bad)} must set securityContext.allowPrivilegeEscalation=false"
        yield Violation("allowPrivilegeEscalation != false", detail)


def _dropped(pod: Tree, minor: int) -> Found:
    if _is_windows(pod, minor):
        return
    missing = [
        one
        for one in _containers(pod)
        if "ALL" not in (value_at(_context(one), "capabilities", "drop") or ())
    ]
    details = []
    if missing:
        details.append(f'{_names(missing)} must set securityContext.capabilities.drop=["ALL"]')
    added = _added(pod, frozenset({"NET_BIND_SERVICE"}))
    if added:
        details.append(added)
    if details:
        yield Violation("unrestricted capabilities", "; ".join(details))


_VOLUMES = frozenset(
    (
        "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image",
        "persistentVolumeClaim", "projected", "secret",
    )
)  # fmt: skip


def _volumes(pod: Tree, _: int) -> Found:
    bad, types = [], set()
    for volume in _spec(pod).get("volumes") or ():
        given = next((name for name in SOURCES if volume.get(name) is not None), "unknown")
        if given not in _VOLUMES:
            bad.append(volume.get("name") or "")
            types.add(given)
    if bad:
        words = ("volume", "uses") if len(bad) == 1 else ("volumes", "use")
        kinds = "restricted volume type" if len(types) == 1 else "restricted volume types"
        detail = f"{words[0]} {_quoted(bad)} {words[1]} {kinds} {_quoted(sorted(types))}"
        yield Violation("restricted volume types", detail)


def _not_root(pod: Tree, minor: int) -> Found:
    if _has_own_users(pod, minor):
        return
    name = "runAsNonRoot"
    setters = _setters(pod, lambda context: context.get(name) is False)
    if setters:
        yield Violation(f"{name} != true", f"{setters} must not set securityContext.{name}=false")
        return
    if _context(_spec(pod)).get(name):
        return
    silent = [one for one in _containers(pod) if _context(one).get(name) is None]
    if silent:
        detail = f"pod or {_names(silent)} must set securityContext.{name}=true"
        yield Violation(f"{name} != true", detail)


def _root_user(pod: Tree, minor: int) -> Found:
    setters = _setters(pod, lambda context: context.get("runAsUser") == 0)
    if setters and not _has_own_users(pod, minor):
        yield Violation("runAsUser=0", f"{setters} must not set runAsUser=0")


def _seccomp_restricted(pod: Tree, minor: int) -> Found:
    if _is_windows(pod, minor):
        return
    explicit = list(_seccomp_set(pod, (None, "RuntimeDefault", "Localhost")))
    if explicit:
        yield from explicit
        return
    if value_at(_context(_spec(pod)), "seccompProfile", "type"):
        return
    silent = [
        one for one in _containers(pod) if not value_at(_context(one), "seccompProfile", "type")
    ]
    if silent:
        detail = (
            f"pod or {_names(silent)} must set securityContext.seccompProfile.type to "
            '"RuntimeDefault" or "Localhost"'
        )
        yield Violation("seccompProfile", detail)


@dataclass(frozen=True, slots=True)
class _Check:
    """One check, since a version; `instead`: since which the restricted level has another."""

    find: Callable[[Tree, int], Found]
    since: int = 0
    instead: int = LATEST + 1


_BASELINE = (  # in the order of their names in Kubernetes
    _Check(_app_armor),
    _Check(_capabilities, instead=22),
    _Check(_host_namespaces),
    _Check(_host_paths, instead=0),
    _Check(_host_ports),
    _Check(_probe_hosts, since=34),
    _Check(_privileged),
    _Check(_proc_mount_baseline, instead=35),
    _Check(_selinux),
    _Check(_seccomp_baseline, since=19, instead=19),
    _Check(_sysctls),
    _Check(_host_process),
)
_RESTRICTED = (
    _Check(_escalation, since=8),
    _Check(_dropped, since=22),
    _Check(_proc_mount, since=35),
    _Check(_volumes),
    _Check(_not_root),
    _Check(_root_user, since=23),
    _Check(_seccomp_restricted, since=19),
)


def _checks(level: Level, minor: int) -> Iterator[_Check]:
    for check in _BASELINE:
        if level == "baseline" or minor < check.instead:
            yield check
    if level == "restricted":
        yield from _RESTRICTED
