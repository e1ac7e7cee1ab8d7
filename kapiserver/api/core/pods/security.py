"""The checks of the Pod Security Standards baseline and restricted, as pure functions.

Mirrors k8s.io/pod-security-admission/policy and its messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from kapiserver.api.accessors import annotations_of, value_at
from kapiserver.api.core.validation.volumes import SOURCES
from kapiserver.api.types import Tree

Level: TypeAlias = Literal["privileged", "baseline", "restricted"]
LEVELS: tuple[Level, ...] = ("privileged", "baseline", "restricted")
LATEST = 10**6
"""The minor version that stands for `latest`, higher than any other."""


class Violation(Struct, frozen=True):
    """Why a pod violates a standard."""

    reason: str
    detail: str

    def __str__(self) -> str:
        return f"{self.reason} ({self.detail})"


Violations: TypeAlias = "Iterator[Violation]"


def violations(pod: Tree, level: Level, minor: int) -> list[Violation]:
    """Return why a pod or a pod template violates a level as defined in version 1.`minor`."""
    if level == "privileged":
        return []
    result: list[Violation] = []
    for check in _checks(level, minor):
        if check.since <= minor:
            result.extend(check.find(pod, minor))
    return result


def _pod_spec(pod: Tree) -> Tree:
    return pod.get("spec") or {}


def _containers(pod: Tree) -> list[Tree]:
    kinds = ("initContainers", "containers", "ephemeralContainers")
    return [container for kind in kinds for container in _pod_spec(pod).get(kind) or ()]


def _security_context(holder: Tree) -> Tree:
    return holder.get("securityContext") or {}


def _is_windows(pod: Tree, minor: int) -> bool:
    return minor >= 25 and value_at(_pod_spec(pod), "os", "name") == "windows"


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _container_names(containers: Sequence[Tree]) -> str:
    word = "container" if len(containers) == 1 else "containers"
    return f"{word} {_quoted(container.get('name') or '' for container in containers)}"


def _offender_names(pod: Tree, is_bad: Callable[[Tree], bool]) -> str:
    """Return the words for the pod and those containers whose security context is bad, or "" if
    none is."""
    offenders = ["pod"] if is_bad(_security_context(_pod_spec(pod))) else []
    bad_containers = [
        container for container in _containers(pod) if is_bad(_security_context(container))
    ]
    return " and ".join(
        [*offenders, _container_names(bad_containers)] if bad_containers else offenders
    )


def _security_contexts(pod: Tree) -> list[Tree]:
    return [_security_context(_pod_spec(pod)), *map(_security_context, _containers(pod))]


# Baseline.


def _app_armor(pod: Tree, _: int) -> Violations:
    allowed = (None, "RuntimeDefault", "Localhost")

    def is_bad(context: Tree) -> bool:
        return value_at(context, "appArmorProfile", "type") not in allowed

    contexts = [_security_context(_pod_spec(pod)), *map(_security_context, _containers(pod))]
    values = sorted(
        {value_at(context, "appArmorProfile", "type") for context in contexts if is_bad(context)}
    )
    offenders = [text for text in (_offender_names(pod, is_bad),) if text]
    prefix = "container.apparmor.security.beta.kubernetes.io/"
    annotations = [
        f'{key}="{value}"'
        for key, value in sorted(annotations_of(pod).items())
        if key.startswith(prefix)
        and value not in ("", "runtime/default")
        and not value.startswith("localhost/")
    ]
    if annotations:
        offenders.append("annotation" if len(annotations) == 1 else "annotations")
    if offenders:
        values += annotations
        word = "profile" if len(values) == 1 else "profiles"
        detail = (
            f"{' and '.join(offenders)} must not set AppArmor profile type to {_quoted(values)}"
        )
        yield Violation(f"forbidden AppArmor {word}", detail)


_DEFAULT_CAPABILITIES = frozenset(
    (
        "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD",
        "NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
    )
)  # fmt: skip


def _added_capabilities(pod: Tree, allowed: frozenset[str]) -> str:
    """Return the words for containers that add capabilities other than those allowed, or ""."""
    bad_containers, names = [], set()
    for container in _containers(pod):
        extra_names = (
            set(value_at(_security_context(container), "capabilities", "add") or ()) - allowed
        )
        if extra_names:
            bad_containers.append(container)
            names |= extra_names
    if not bad_containers:
        return ""
    quoted_names = _quoted(sorted(names))
    subject = _container_names(bad_containers)
    return f"{subject} must not include {quoted_names} in securityContext.capabilities.add"


def _capabilities(pod: Tree, _: int) -> Violations:
    detail = _added_capabilities(pod, _DEFAULT_CAPABILITIES)
    if detail:
        yield Violation("non-default capabilities", detail)


def _host_namespaces(pod: Tree, _: int) -> Violations:
    namespaces = [
        name for name in ("hostNetwork", "hostPID", "hostIPC") if _pod_spec(pod).get(name)
    ]
    if namespaces:
        yield Violation("host namespaces", ", ".join(f"{name}=true" for name in namespaces))


def _host_paths(pod: Tree, _: int) -> Violations:
    bad_volumes = [
        volume.get("name") or ""
        for volume in _pod_spec(pod).get("volumes") or ()
        if volume.get("hostPath") is not None
    ]
    if bad_volumes:
        word = "volume" if len(bad_volumes) == 1 else "volumes"
        yield Violation("hostPath volumes", f"{word} {_quoted(bad_volumes)}")


def _host_ports(pod: Tree, _: int) -> Violations:
    bad_containers, ports = [], set()
    for container in _containers(pod):
        container_ports = {
            port["hostPort"] for port in container.get("ports") or () if port.get("hostPort")
        }
        if container_ports:
            bad_containers.append(container)
            ports |= container_ports
    if bad_containers:
        uses = "uses" if len(bad_containers) == 1 else "use"
        word = "hostPort" if len(ports) == 1 else "hostPorts"
        port_texts = ", ".join(sorted(map(str, ports)))
        yield Violation(
            "hostPort", f"{_container_names(bad_containers)} {uses} {word} {port_texts}"
        )


_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_LIFECYCLE_HOOKS = ("postStart", "preStop")


def _probe_hosts(pod: Tree, _: int) -> Violations:
    bad_containers, hosts = [], set()
    for container in _containers(pod):
        handlers = [container.get(name) or {} for name in _PROBES]
        handlers += [value_at(container, "lifecycle", name) or {} for name in _LIFECYCLE_HOOKS]
        container_hosts = {
            value_at(handler, action, "host")
            for handler in handlers
            for action in ("httpGet", "tcpSocket")
        } - {None, ""}
        if container_hosts:
            bad_containers.append(container)
            hosts |= container_hosts
    if bad_containers:
        uses = "uses" if len(bad_containers) == 1 else "use"
        word = "host" if len(hosts) == 1 else "hosts"
        bad_containers.sort(key=lambda container: str(container.get("name")))
        subject = _container_names(bad_containers)
        detail = f"{subject} {uses} probe or lifecycle {word} {_quoted(sorted(hosts))}"
        yield Violation("probe or lifecycle host", detail)


def _privileged(pod: Tree, _: int) -> Violations:
    bad_containers = [
        container
        for container in _containers(pod)
        if _security_context(container).get("privileged")
    ]
    if bad_containers:
        yield Violation(
            "privileged",
            f"{_container_names(bad_containers)} must not set securityContext.privileged=true",
        )


def _has_user_namespace(pod: Tree, minor: int) -> bool:
    """Return whether the pod has a user namespace. Its root user is not root on the node."""
    return minor >= 35 and _pod_spec(pod).get("hostUsers") is False


def _proc_mount_baseline(pod: Tree, minor: int) -> Violations:
    if not _has_user_namespace(pod, minor):
        yield from _proc_mount(pod, minor)


def _proc_mount(pod: Tree, _: int) -> Violations:
    bad_containers = [
        container
        for container in _containers(pod)
        if _security_context(container).get("procMount") not in (None, "Default")
    ]
    if bad_containers:
        values = _quoted(
            sorted({_security_context(container)["procMount"] for container in bad_containers})
        )
        subject = _container_names(bad_containers)
        detail = f"{subject} must not set securityContext.procMount to {values}"
        yield Violation("procMount", detail)


_SELINUX_TYPES = ("", "container_t", "container_init_t", "container_kvm_t")


def _selinux(pod: Tree, minor: int) -> Violations:
    allowed = (*_SELINUX_TYPES, "container_engine_t") if minor >= 31 else _SELINUX_TYPES

    def options(context: Tree) -> Tree:
        return context.get("seLinuxOptions") or {}

    def is_bad(context: Tree) -> bool:
        selinux_options = options(context)
        return (selinux_options.get("type") or "") not in allowed or bool(
            selinux_options.get("user") or selinux_options.get("role")
        )

    offenders = _offender_names(pod, is_bad)
    if not offenders:
        return
    all_options = [options(context) for context in _security_contexts(pod)]
    types = sorted({entry.get("type") or "" for entry in all_options} - set(allowed))
    problems = [f"{'type' if len(types) == 1 else 'types'} {_quoted(types)}"] if types else []
    for name in ("user", "role"):
        if any(entry.get(name) for entry in all_options):
            problems.append(f"{name} may not be set")
    detail = f"{offenders} set forbidden securityContext.seLinuxOptions: {'; '.join(problems)}"
    yield Violation("seLinuxOptions", detail)


def _seccomp_profiles(pod: Tree, allowed: tuple[str | None, ...]) -> Violations:
    def is_bad(context: Tree) -> bool:
        return value_at(context, "seccompProfile", "type") not in allowed

    offenders = _offender_names(pod, is_bad)
    if offenders:
        values = {
            value_at(security_context, "seccompProfile", "type")
            for security_context in _security_contexts(pod)
            if is_bad(security_context)
        }
        quoted_values = _quoted(sorted(values))
        detail = f"{offenders} must not set securityContext.seccompProfile.type to {quoted_values}"
        yield Violation("seccompProfile", detail)


def _seccomp_baseline(pod: Tree, _: int) -> Violations:
    return _seccomp_profiles(pod, (None, "RuntimeDefault", "Localhost"))


_SYSCTLS = {
    "kernel.shm_rmid_forced": 0, "net.ipv4.ip_local_port_range": 0, "net.ipv4.tcp_syncookies": 0,
    "net.ipv4.ping_group_range": 0, "net.ipv4.ip_unprivileged_port_start": 0,
    "net.ipv4.ip_local_reserved_ports": 27, "net.ipv4.tcp_keepalive_time": 29,
    "net.ipv4.tcp_fin_timeout": 29, "net.ipv4.tcp_keepalive_intvl": 29,
    "net.ipv4.tcp_keepalive_probes": 29, "net.ipv4.tcp_rmem": 32, "net.ipv4.tcp_wmem": 32,
}  # fmt: skip
"""The allowed sysctls, and the minor version since which each is allowed."""


def _sysctls(pod: Tree, minor: int) -> Violations:
    names = [
        sysctl.get("name") or ""
        for sysctl in _security_context(_pod_spec(pod)).get("sysctls") or ()
    ]
    bad_names = [name for name in names if _SYSCTLS.get(name, LATEST + 1) > minor]
    if bad_names:
        yield Violation("forbidden sysctls", ", ".join(bad_names))


def _host_process(pod: Tree, _: int) -> Violations:
    offenders = _offender_names(
        pod, lambda context: bool(value_at(context, "windowsOptions", "hostProcess"))
    )
    if offenders:
        detail = f"{offenders} must not set securityContext.windowsOptions.hostProcess=true"
        yield Violation("hostProcess", detail)


# Restricted.


def _privilege_escalation(pod: Tree, minor: int) -> Violations:
    if _is_windows(pod, minor):
        return
    bad_containers = [
        container
        for container in _containers(pod)
        if _security_context(container).get("allowPrivilegeEscalation") is not False
    ]
    if bad_containers:
        subject = _container_names(bad_containers)
        detail = f"{subject} must set securityContext.allowPrivilegeEscalation=false"
        yield Violation("allowPrivilegeEscalation != false", detail)


def _restricted_capabilities(pod: Tree, minor: int) -> Violations:
    if _is_windows(pod, minor):
        return
    missing = [
        container
        for container in _containers(pod)
        if "ALL" not in (value_at(_security_context(container), "capabilities", "drop") or ())
    ]
    details = []
    if missing:
        details.append(
            f'{_container_names(missing)} must set securityContext.capabilities.drop=["ALL"]'
        )
    added_capabilities = _added_capabilities(pod, frozenset({"NET_BIND_SERVICE"}))
    if added_capabilities:
        details.append(added_capabilities)
    if details:
        yield Violation("unrestricted capabilities", "; ".join(details))


_ALLOWED_VOLUME_TYPES = frozenset(
    (
        "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image",
        "persistentVolumeClaim", "projected", "secret",
    )
)  # fmt: skip


def _volume_types(pod: Tree, _: int) -> Violations:
    bad_volumes, types = [], set()
    for volume in _pod_spec(pod).get("volumes") or ():
        volume_type = next((name for name in SOURCES if volume.get(name) is not None), "unknown")
        if volume_type not in _ALLOWED_VOLUME_TYPES:
            bad_volumes.append(volume.get("name") or "")
            types.add(volume_type)
    if bad_volumes:
        words = ("volume", "uses") if len(bad_volumes) == 1 else ("volumes", "use")
        kinds = "restricted volume type" if len(types) == 1 else "restricted volume types"
        detail = f"{words[0]} {_quoted(bad_volumes)} {words[1]} {kinds} {_quoted(sorted(types))}"
        yield Violation("restricted volume types", detail)


def _run_as_non_root(pod: Tree, minor: int) -> Violations:
    if _has_user_namespace(pod, minor):
        return
    name = "runAsNonRoot"
    offenders = _offender_names(pod, lambda context: context.get(name) is False)
    if offenders:
        yield Violation(f"{name} != true", f"{offenders} must not set securityContext.{name}=false")
        return
    if _security_context(_pod_spec(pod)).get(name):
        return
    undecided = [
        container
        for container in _containers(pod)
        if _security_context(container).get(name) is None
    ]
    if undecided:
        detail = f"pod or {_container_names(undecided)} must set securityContext.{name}=true"
        yield Violation(f"{name} != true", detail)


def _run_as_user(pod: Tree, minor: int) -> Violations:
    offenders = _offender_names(pod, lambda context: context.get("runAsUser") == 0)
    if offenders and not _has_user_namespace(pod, minor):
        yield Violation("runAsUser=0", f"{offenders} must not set runAsUser=0")


def _seccomp_restricted(pod: Tree, minor: int) -> Violations:
    if _is_windows(pod, minor):
        return
    explicit_violations = list(_seccomp_profiles(pod, (None, "RuntimeDefault", "Localhost")))
    if explicit_violations:
        yield from explicit_violations
        return
    if value_at(_security_context(_pod_spec(pod)), "seccompProfile", "type"):
        return
    undecided = [
        container
        for container in _containers(pod)
        if not value_at(_security_context(container), "seccompProfile", "type")
    ]
    if undecided:
        detail = (
            f"pod or {_container_names(undecided)} must set "
            'securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
        )
        yield Violation("seccompProfile", detail)


class _Check(Struct, frozen=True):
    """A check that applies since a minor version. From version `replaced_since`, the restricted
    level replaces it by another check."""

    find: Callable[[Tree, int], Violations]
    since: int = 0
    replaced_since: int = LATEST + 1


_BASELINE = (  # ordered by their names in Kubernetes
    _Check(_app_armor),
    _Check(_capabilities, replaced_since=22),
    _Check(_host_namespaces),
    _Check(_host_paths, replaced_since=0),
    _Check(_host_ports),
    _Check(_probe_hosts, since=34),
    _Check(_privileged),
    _Check(_proc_mount_baseline, replaced_since=35),
    _Check(_selinux),
    _Check(_seccomp_baseline, since=19, replaced_since=19),
    _Check(_sysctls),
    _Check(_host_process),
)
_RESTRICTED = (
    _Check(_privilege_escalation, since=8),
    _Check(_restricted_capabilities, since=22),
    _Check(_proc_mount, since=35),
    _Check(_volume_types),
    _Check(_run_as_non_root),
    _Check(_run_as_user, since=23),
    _Check(_seccomp_restricted, since=19),
)


def _checks(level: Level, minor: int) -> Iterator[_Check]:
    for check in _BASELINE:
        if level == "baseline" or minor < check.replaced_since:
            yield check
    if level == "restricted":
        yield from _RESTRICTED
