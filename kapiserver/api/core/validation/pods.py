"""Rules for pods: their specs, templates of them, and what may change later."""

from __future__ import annotations

import copy
from collections.abc import Iterator

from kapiserver.api import names
from kapiserver.api.core.validation.common import (
    INT32_MAX,
    checked,
    checked_name,
    chosen,
    in_range,
)
from kapiserver.api.core.validation.containers import (
    claim_names,
    containers,
    ephemeral_containers,
    host_network_ports,
    init_containers,
)
from kapiserver.api.core.validation.scheduling import (
    affinity,
    readiness_gates,
    scheduling_gates,
    tolerations,
    topology_spread,
)
from kapiserver.api.core.validation.security import pod_security
from kapiserver.api.core.validation.volumes import usable, volumes
from kapiserver.api.errors import FieldError, Path, forbidden, invalid, required
from kapiserver.api.label_selectors import validate_labels
from kapiserver.api.metadata import validate_annotations
from kapiserver.api.types import Tree

_SPEC = Path("spec")
_DNS_POLICIES = ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")
_NAMESERVERS_MAX = 3
_SEARCHES_MAX = 32
_SEARCH_CHARACTERS_MAX = 2048
_UPDATABLE = (
    "`spec.containers[*].image`",
    "`spec.initContainers[*].image`",
    "`spec.activeDeadlineSeconds`",
    "`spec.tolerations` (only additions to existing tolerations)",
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
)


def new_pod(pod: Tree) -> Iterator[FieldError]:
    """A pod that is to be created."""
    spec = pod.get("spec") or {}
    yield from pod_spec(spec, _SPEC)
    if spec.get("ephemeralContainers"):
        yield forbidden(_SPEC / "ephemeralContainers", "cannot be set on create")
    if spec.get("nodeName") and spec.get("schedulingGates"):
        detail = "cannot be set until all schedulingGates have been cleared"
        yield forbidden(_SPEC / "nodeName", detail)


def pod_template(template: Tree, path: Path) -> Iterator[FieldError]:
    """A template that a controller makes pods from."""
    meta, spec = template.get("metadata") or {}, template.get("spec") or {}
    yield from validate_labels(meta.get("labels"), path / "metadata" / "labels")
    yield from validate_annotations(meta.get("annotations"), path / "metadata" / "annotations")
    yield from pod_spec(spec, path / "spec")
    if spec.get("ephemeralContainers"):
        detail = "ephemeral containers not allowed in pod template"
        yield forbidden(path / "spec" / "ephemeralContainers", detail)


def pod_spec(spec: Tree, path: Path) -> Iterator[FieldError]:
    """What pods and templates share."""
    grace = spec.get("terminationGracePeriodSeconds")
    if grace is None:
        yield required(path / "terminationGracePeriodSeconds")
    errors = list(volumes(spec, path))
    mountable = usable(spec, errors, path)
    yield from errors
    yield from claim_names(spec, path)
    yield from containers(spec, mountable, path, grace or 0)
    yield from init_containers(spec, mountable, path, grace or 0)
    yield from ephemeral_containers(spec, mountable, path)
    yield from host_network_ports(spec, path)
    restart = ("Always", "Never", "OnFailure")
    yield from chosen(spec.get("restartPolicy"), restart, path / "restartPolicy")
    yield from chosen(spec.get("dnsPolicy"), _DNS_POLICIES, path / "dnsPolicy")
    yield from validate_labels(spec.get("nodeSelector"), path / "nodeSelector")
    yield from pod_security(spec, path)
    for index, secret in enumerate(spec.get("imagePullSecrets") or ()):
        if not secret.get("name"):
            yield required((path / "imagePullSecrets")[index] / "name")
    yield from affinity(spec.get("affinity"), path / "affinity")
    yield from _dns_config(spec, path / "dnsConfig")
    yield from readiness_gates(spec.get("readinessGates"), path / "readinessGates")
    yield from scheduling_gates(spec.get("schedulingGates"), path / "schedulingGates")
    spread = "topologySpreadConstraints"
    yield from topology_spread(spec.get(spread), path / spread)
    for name, check in _NAMES:
        if spec.get(name):
            yield from checked(check, spec[name], path / name)
    deadline = spec.get("activeDeadlineSeconds")
    yield from in_range(deadline, 1, INT32_MAX, path / "activeDeadlineSeconds")
    yield from tolerations(spec.get("tolerations"), path / "tolerations")
    yield from _host_aliases(spec, path / "hostAliases")
    preemption = ("Never", "PreemptLowerPriority")
    yield from chosen(
        spec.get("preemptionPolicy"), preemption, path / "preemptionPolicy", optional=True
    )
    if spec.get("os") is not None:
        yield from chosen(spec["os"].get("name"), ("linux", "windows"), path / "os" / "name")


_NAMES: tuple[tuple[str, names.Check], ...] = (
    ("serviceAccountName", names.dns1123_subdomain),
    ("nodeName", names.dns1123_subdomain),
    ("hostname", names.dns1123_label),
    ("subdomain", names.dns1123_label),
    ("priorityClassName", names.dns1123_subdomain),
    ("runtimeClassName", names.dns1123_subdomain),
)


def _dns_config(spec: Tree, path: Path) -> Iterator[FieldError]:
    config = spec.get("dnsConfig")
    servers = (config or {}).get("nameservers") or ()
    if spec.get("dnsPolicy") == "None" and not servers:
        detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
        yield required(path if config is None else path / "nameservers", detail)
    if config is None:
        return
    if len(servers) > _NAMESERVERS_MAX:
        detail = f"must not have more than {_NAMESERVERS_MAX} nameservers"
        yield invalid(path / "nameservers", list(servers), detail)
    for index, server in enumerate(servers):
        yield from checked(names.ip, server, (path / "nameservers")[index])
    searches = config.get("searches") or ()
    if len(searches) > _SEARCHES_MAX:
        detail = f"must not have more than {_SEARCHES_MAX} search paths"
        yield invalid(path / "searches", list(searches), detail)
    if len(" ".join(searches)) > _SEARCH_CHARACTERS_MAX:
        detail = (
            f"must not have more than {_SEARCH_CHARACTERS_MAX} characters (including spaces) in "
            "the search list"
        )
        yield invalid(path / "searches", list(searches), detail)
    for index, search in enumerate(searches):
        plain = search if search == "." else search.removesuffix(".")
        if plain != ".":
            yield from checked(names.dns1123_subdomain, plain, (path / "searches")[index])
    for index, option in enumerate(config.get("options") or ()):
        if not option.get("name"):
            yield required((path / "options")[index], "must not be empty")


def _host_aliases(spec: Tree, path: Path) -> Iterator[FieldError]:
    for index, alias in enumerate(spec.get("hostAliases") or ()):
        yield from checked(names.ip, alias.get("ip") or "", path[index] / "ip")
        for hostname in alias.get("hostnames") or ():
            yield from checked(names.dns1123_subdomain, hostname, path[index] / "hostnames")


def changed_pod(new: Tree, old: Tree) -> Iterator[FieldError]:
    """A pod that is to be changed: little of one may be."""
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    yield from pod_spec(spec, _SPEC)
    for kind in ("containers", "initContainers"):
        if len(spec.get(kind) or ()) != len(before.get(kind) or ()):
            yield forbidden(_SPEC / kind, "pod updates may not add or remove containers")
            return
    deadline = list(_deadline(spec, before))
    yield from deadline
    if any("previous value" in error.detail for error in deadline):
        return
    yield from _added_tolerations(spec, before)
    for gate in spec.get("schedulingGates") or ():
        if gate not in (before.get("schedulingGates") or ()):
            detail = f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'"
            yield forbidden(_SPEC / "schedulingGates", detail)
    if spec != before:
        wanted = _with_updatable(spec, before)
        if wanted != before:
            detail = f"pod updates may not change fields other than {','.join(_UPDATABLE)}"
            yield forbidden(_SPEC, f"{detail}\n{_difference(wanted, before)}")


def _deadline(spec: Tree, before: Tree) -> Iterator[FieldError]:
    path = _SPEC / "activeDeadlineSeconds"
    new, old = spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")
    if new is None:
        if old is not None:
            yield invalid(path, None, "must not update from a positive integer to nil value")
    elif old is not None and old < new:
        yield invalid(path, new, "must be less than or equal to previous value")


def _added_tolerations(spec: Tree, before: Tree) -> Iterator[FieldError]:
    def timeless(found: list[Tree] | None) -> list[Tree]:
        return [{**one, "tolerationSeconds": None} for one in found or ()]

    kept = timeless(spec.get("tolerations"))
    if any(one not in kept for one in timeless(before.get("tolerations"))):
        detail = "existing toleration can not be modified except its tolerationSeconds"
        yield forbidden(_SPEC / "tolerations", detail)


def _with_updatable(spec: Tree, before: Tree) -> Tree:
    """The new spec, with the old values of all that may change."""
    found = copy.deepcopy(spec)
    for kind in ("containers", "initContainers"):
        for container, old in zip(found.get(kind) or (), before.get(kind) or (), strict=False):
            if "image" in old:
                container["image"] = old["image"]
    for name in ("activeDeadlineSeconds", "schedulingGates", "tolerations"):
        if before.get(name) is None:
            found.pop(name, None)
        else:
            found[name] = before[name]
    grace = before.get("terminationGracePeriodSeconds")
    if grace is not None and grace < 0 and found.get("terminationGracePeriodSeconds") == 1:
        found["terminationGracePeriodSeconds"] = grace
    if before.get("schedulingGates"):  # not scheduled yet: where it may run can be narrowed
        for name in ("nodeSelector", "affinity"):
            if before.get(name) is None:
                found.pop(name, None)
    return found


def _difference(new: Tree, old: Tree) -> str:
    lines = ["  core.PodSpec{"]
    for name in dict.fromkeys((*old, *new)):
        if new.get(name) != old.get(name):
            lines.extend(
                f"{sign}   {name}: {value!r},"
                for sign, value in (("-", new.get(name)), ("+", old.get(name)))
                if value is not None
            )
    return "\n".join([*lines, "  }", ""])


def changed_pod_status(new: Tree, old: Tree) -> Iterator[FieldError]:
    """What the kubelet reports."""
    status = new.get("status") or {}
    path = Path("status")
    if status.get("nominatedNodeName"):
        where = path / "nominatedNodeName"
        yield from checked_name(names.dns1123_subdomain, status["nominatedNodeName"], where)
    restart = (new.get("spec") or {}).get("restartPolicy")
    before = (old.get("status") or {}).get("containerStatuses") or ()
    ended = {
        one.get("name"): one["state"]["terminated"]
        for one in before
        if (one.get("state") or {}).get("terminated") is not None
    }
    for index, one in enumerate(status.get("containerStatuses") or ()):
        terminated = ended.get(one.get("name"))
        if terminated is None or (one.get("state") or {}).get("terminated") is not None:
            continue
        failed = bool(terminated.get("exitCode"))
        if restart == "Never" or (restart == "OnFailure" and not failed):
            detail = "may not be transitioned to non-terminated state"
            yield forbidden((path / "containerStatuses")[index] / "state", detail)
    for index, address in enumerate(status.get("podIPs") or ()):
        yield from checked(names.ip, address.get("ip") or "", (path / "podIPs")[index])


def changed_ephemeral_containers(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Ephemeral containers are added, never changed or removed."""
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    path = _SPEC / "ephemeralContainers"
    yield from ephemeral_containers(spec, usable(spec, (), _SPEC), _SPEC)
    found = {one.get("name"): one for one in spec.get("ephemeralContainers") or ()}
    for one in before.get("ephemeralContainers") or ():
        name = one.get("name")
        if name not in found:
            yield forbidden(path, f'existing ephemeral containers "{name}" may not be removed\n')
        elif found[name] != one:
            yield forbidden(path, f'existing ephemeral containers "{name}" may not be changed\n')
