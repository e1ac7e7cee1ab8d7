"""Rules for what the kubelet and the scheduler report of a pod."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence

from kapiserver.api import names
from kapiserver.api.core.validation.common import INT32_MAX, checked, in_range
from kapiserver.api.errors import (
    FieldError,
    Path,
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
)
from kapiserver.api.metadata import immutable
from kapiserver.api.types import Tree

_STATUS = Path("status")
_OWN_CONDITIONS = ("PodScheduled", "Ready", "Initialized")
_HEALTH = ("Healthy", "Unhealthy", "Unknown")
_LISTS = (
    ("containerStatuses", "containers"),
    ("initContainerStatuses", "initContainers"),
    ("ephemeralContainerStatuses", "ephemeralContainers"),
)


def changed_pod_status(new: Tree, old: Tree) -> Iterator[FieldError]:
    """A changed status."""
    status, before, spec = new.get("status") or {}, old.get("status") or {}, new.get("spec") or {}
    for index, condition in enumerate(status.get("conditions") or ()):
        kind = condition.get("type") or ""
        if kind not in _OWN_CONDITIONS:
            at = (Path("metadata") / "conditions")[index] / "Type"  # as kube-apiserver calls it
            yield from checked(names.qualified_name, kind, at)
    node = status.get("nominatedNodeName")
    if node and node != before.get("nominatedNodeName"):
        yield from checked(names.dns1123_subdomain, node, _STATUS / "nominatedNodeName")
    quality = status.get("qosClass") or "", before.get("qosClass") or ""
    yield from immutable(*quality, _STATUS / "qosClass")
    for name, kind in _LISTS:
        yield from _transitions(status, before, spec, name, kind)
    yield from _claims(status.get("resourceClaimStatuses"), spec)
    yield from _addresses(status, "podIPs")
    hosts = status.get("hostIPs") or ()
    if hosts and status.get("hostIP") != hosts[0].get("ip"):
        at = (_STATUS / "hostIPs")[0] / "ip"
        yield invalid(at, hosts[0].get("ip") or "", "must be equal to `hostIP`")
    yield from _addresses(status, "hostIPs")
    for name, kind in _LISTS:
        yield from _containers(status.get(name) or (), spec, _STATUS / name, kind)


def _transitions(
    status: Tree, before: Tree, spec: Tree, name: str, kind: str
) -> Iterator[FieldError]:
    """What has ended for good does not begin again."""
    restart = "Never" if kind == "ephemeralContainers" else spec.get("restartPolicy")
    if restart == "Always":
        return
    found = {one.get("name"): one for one in status.get(name) or ()}
    own = {one.get("name"): one for one in spec.get(kind) or ()}
    for index, old in enumerate(before.get(name) or ()):
        ended = (old.get("state") or {}).get("terminated")
        container = own.get(old.get("name")) or {}
        if ended is None or (ended.get("exitCode") and restart == "OnFailure"):
            continue
        if _starts_again(container, kind):
            continue
        one = found.get(old.get("name"))
        if one is not None and (one.get("state") or {}).get("terminated") is None:
            detail = "may not be transitioned to non-terminated state"
            yield forbidden((_STATUS / name)[index] / "state", detail)


def _starts_again(container: Tree, kind: str) -> bool:
    if container.get("restartPolicyRules"):
        return True
    policy = container.get("restartPolicy")
    return policy == "Always" or (kind == "containers" and policy == "OnFailure")


def _claims(statuses: Sequence[Tree] | None, spec: Tree) -> Iterator[FieldError]:
    known = {claim.get("name") for claim in spec.get("resourceClaims") or ()}
    seen: set[str] = set()
    for index, one in enumerate(statuses or ()):
        at, name = (_STATUS / "resourceClaimStatuses")[index], one.get("name") or ""
        if name in seen:
            yield duplicate(at / "name", name)
        elif name not in known:
            yield not_found(at / "name", name)
        seen.add(name)
        if one.get("resourceClaimName") is not None:
            claim = one["resourceClaimName"]
            yield from checked(names.dns1123_subdomain, claim, at / "name")


def _addresses(status: Tree, name: str) -> Iterator[FieldError]:
    path, found = _STATUS / name, status.get(name) or []
    addresses = [one.get("ip") or "" for one in found]
    for index, address in enumerate(addresses):
        yield from checked(names.ip, address, path[index])
    if len(addresses) < 2:
        return
    shown = [{"IP": address} for address in addresses]
    if len(addresses) > 2 or not _both_families(addresses):
        detail = "may specify no more than one IP for each IP family"
        yield invalid(path, shown, detail)
    for index, address in enumerate(addresses):
        if address in addresses[:index]:
            yield duplicate(path[index], shown[index])


def _both_families(addresses: Sequence[str]) -> bool:
    try:
        return {ipaddress.ip_address(one).version for one in addresses} == {4, 6}
    except ValueError:
        return True  # said already


def _containers(
    statuses: Sequence[Tree], spec: Tree, path: Path, kind: str
) -> Iterator[FieldError]:
    windows = (spec.get("os") or {}).get("name") == "windows"
    own = {one.get("name"): one for one in spec.get(kind) or ()}
    for index, one in enumerate(statuses):
        user = (one.get("user") or {}).get("linux")
        if user is not None:
            yield from _user(user, path[index] / "linux", windows=windows)
        allocated = one.get("allocatedResourcesStatus") or ()
        at = path[index] / "allocatedResourcesStatus"
        if allocated and kind == "ephemeralContainers":
            yield forbidden(at, "must not be specified in container status")
            continue
        for number, resource in enumerate(allocated):
            container = own.get(one.get("name"))
            yield from _allocated(resource, container, at[number])


def _user(user: Tree, path: Path, *, windows: bool) -> Iterator[FieldError]:
    if windows:
        yield forbidden(path, "cannot be set for a windows pod")
        return
    for name in ("uid", "gid"):
        yield from in_range(user.get(name) or 0, 0, INT32_MAX, path / name)
    for index, group in enumerate(user.get("supplementalGroups") or ()):
        yield from in_range(group, 0, INT32_MAX, (path / "supplementalGroups")[index])


def _allocated(resource: Tree, container: Tree | None, path: Path) -> Iterator[FieldError]:
    name = resource.get("name") or ""
    if container is not None:
        asked = container.get("resources") or {}
        if name.startswith("claim:"):
            detail = (
                "must match one of the container's resource claims in a format "
                "'claim:<claimName>/<request>' or 'claim:<claimName>' if request is empty"
            )
            known = [_claim(one) for one in asked.get("claims") or ()]
        else:
            detail = "must match one of the container's resource requests"
            known = list(asked.get("requests") or ())
        if name not in known:
            yield invalid(path / "name", name, detail)
    seen: set[str] = set()
    for index, one in enumerate(resource.get("resources") or ()):
        at, health = (path / "resources")[index], one.get("health") or ""
        if health not in _HEALTH:
            yield not_supported(at / "health", health, _HEALTH)
        identity = one.get("resourceID") or ""
        if identity in seen:
            yield duplicate(at / "resourceID", identity)
        seen.add(identity)


def _claim(claim: Tree) -> str:
    request = claim.get("request")
    return f"claim:{claim.get('name')}" + (f"/{request}" if request else "")
