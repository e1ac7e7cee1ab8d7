"""Rules for what the kubelet and the scheduler report of a pod."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kapiserver.api import addresses, names
from kapiserver.api.core.validation.common import (
    INT32_MAX,
    validate_format,
    validate_range,
    validate_required_format,
)
from kapiserver.api.core.validation.pod_annotations import validate_annotations_update
from kapiserver.api.errors import (
    FieldError,
    Path,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from kapiserver.api.metadata import immutable
from kapiserver.api.types import Tree

_STATUS = Path("status")
_OWN_CONDITIONS = ("PodScheduled", "Ready", "Initialized")
_HEALTH = ("Healthy", "Unhealthy", "Unknown")
_NO_GENERATION = "must be a non-negative integer"
_LISTS = (
    ("containerStatuses", "containers"),
    ("initContainerStatuses", "initContainers"),
    ("ephemeralContainerStatuses", "ephemeralContainers"),
)


def validate_pod_status_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """A changed status."""
    status, old_status, spec = (
        new.get("status") or {},
        old.get("status") or {},
        new.get("spec") or {},
    )
    yield from validate_annotations_update(new, old)
    yield from _validate_conditions(status.get("conditions") or ())
    node = status.get("nominatedNodeName")
    if node and node != old_status.get("nominatedNodeName"):
        field_path = _STATUS / "nominatedNodeName"
        yield from validate_format(names.dns1123_subdomain, node, field_path)
        if (old.get("spec") or {}).get("nodeName"):
            yield forbidden(field_path, "may not be set on pods that are already bound to a node")
    if (status.get("observedGeneration") or 0) < 0:
        field_path = _STATUS / "observedGeneration"
        yield invalid(field_path, status["observedGeneration"], _NO_GENERATION)
    quality = status.get("qosClass") or "", old_status.get("qosClass") or ""
    yield from immutable(*quality, _STATUS / "qosClass")
    for name, kind in _LISTS:
        yield from _validate_state_transitions(
            status, old_status, old.get("spec") or {}, name, kind
        )
    yield from _validate_resource_claim_statuses(status.get("resourceClaimStatuses"), spec)
    if status.get("extendedResourceClaimStatus") is not None:
        field_path = _STATUS / "extendedResourceClaimStatus"
        yield from _validate_extended_resource_claim(
            status["extendedResourceClaimStatus"], spec, field_path
        )
    yield from _validate_addresses(status, old_status, "podIPs")
    hosts = status.get("hostIPs") or ()
    if hosts and (status.get("hostIP") or "") != (hosts[0].get("ip") or ""):
        field_path = (_STATUS / "hostIPs")[0] / "ip"
        yield invalid(field_path, hosts[0].get("ip") or "", "must be equal to `hostIP`")
    yield from _validate_addresses(status, old_status, "hostIPs")
    windows = (spec.get("os") or {}).get("name") == "windows"
    for name, _ in _LISTS:
        yield from _validate_users(status.get(name) or (), _STATUS / name, windows=windows)
    for name, kind in _LISTS:
        yield from _validate_allocated_resources(status.get(name) or (), spec, _STATUS / name, kind)


def _validate_conditions(conditions: Sequence[Tree]) -> Iterator[FieldError]:
    for index, condition in enumerate(conditions):
        condition_path, kind = (_STATUS / "conditions")[index], condition.get("type") or ""
        if (condition.get("observedGeneration") or 0) < 0:
            observed_generation_path = condition_path / "observedGeneration"
            yield invalid(observed_generation_path, condition["observedGeneration"], _NO_GENERATION)
        if kind not in _OWN_CONDITIONS:
            yield from validate_format(
                names.qualified_name, kind, condition_path / "Type"
            )  # as kube-apiserver says


def _validate_state_transitions(
    status: Tree, old_status: Tree, spec: Tree, name: str, kind: str
) -> Iterator[FieldError]:
    """What has ended for good does not begin again."""
    found: dict[str | None, list[Tree]] = {}
    for one in status.get(name) or ():
        found.setdefault(one.get("name"), []).append(one)
    for index, old in enumerate(old_status.get(name) or ()):
        ended = (old.get("state") or {}).get("terminated")
        runs = any(
            (one.get("state") or {}).get("terminated") is None
            for one in found.get(old.get("name"), ())
        )
        if ended is None or not runs:
            continue
        if not _may_restart(spec, kind, old.get("name"), ended.get("exitCode") or 0):
            detail = "may not be transitioned to non-terminated state"
            yield forbidden((_STATUS / name)[index] / "state", detail)


def _may_restart(spec: Tree, kind: str, name: str | None, code: int) -> bool:
    """Whether the container does after it ended with that code."""
    if kind == "ephemeralContainers":
        return False
    if _may_restart_all_containers(spec):
        return True
    own = next((one for one in spec.get(kind) or () if one.get("name") == name), None)
    if own is None and kind == "containers":
        return False
    policy = (own or {}).get("restartPolicy") or spec.get("restartPolicy")
    rules = (own or {}).get("restartPolicyRules") or ()
    return (
        any(_matches_exit_code(rule.get("exitCodes") or {}, code) for rule in rules)
        or policy == "Always"
        or (policy == "OnFailure" and code != 0)
    )


def _may_restart_all_containers(spec: Tree) -> bool:
    return any(
        rule.get("action") == "RestartAllContainers"
        for kind in ("initContainers", "containers")
        for one in spec.get(kind) or ()
        for rule in one.get("restartPolicyRules") or ()
    )


def _matches_exit_code(codes: Tree, code: int) -> bool:
    return (code in (codes.get("values") or ())) == (codes.get("operator") == "In")


def _validate_resource_claim_statuses(
    statuses: Sequence[Tree] | None, spec: Tree
) -> Iterator[FieldError]:
    known = {claim.get("name") for claim in spec.get("resourceClaims") or ()}
    seen: set[str] = set()
    for index, status in enumerate(statuses or ()):
        status_path, name = (_STATUS / "resourceClaimStatuses")[index], status.get("name") or ""
        if name not in known:
            detail = "must match the name of an entry in `spec.resourceClaims`"
            yield invalid(status_path / "name", name, detail)
        if name in seen:
            yield duplicate(status_path / "name", name)
        seen.add(name)
        if status.get("resourceClaimName") is not None:
            claim = status["resourceClaimName"]
            yield from validate_format(names.dns1123_subdomain, claim, status_path / "name")


def _validate_extended_resource_claim(claim: Tree, spec: Tree, path: Path) -> Iterator[FieldError]:
    """The claim that was made for the extended resources that containers request."""
    kinds = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    containers = {kind.get("name"): kind for kind in kinds}
    mappings = claim.get("requestMappings") or ()
    if not mappings:
        yield required(path / "requestMappings", "at least one request mapping is required")
    seen: set[tuple[str, ...]] = set()
    for index, mapping in enumerate(mappings):
        field_path = (path / "requestMappings")[index]
        parts = ("containerName", "resourceName", "requestName")
        container, resource, request = key = tuple(mapping.get(part) or "" for part in parts)
        own = containers.get(container)
        if own is None:
            detail = (
                "must match the name of an entry in spec.initContainers.name or "
                "spec.containers.name"
            )
            yield invalid(field_path / "containerName", container, detail)
        elif resource not in ((own.get("resources") or {}).get("requests") or ()):
            detail = (
                "must match the extended resource name of an entry in "
                "spec.initContainers.resources.requests or spec.containers.resources.requests"
            )
            yield invalid(field_path / "resourceName", resource, detail)
        # kube-apiserver does not say in which mapping.
        yield from validate_format(names.dns1123_label, request, path / "requestName")
        if key in seen:
            for part, value in zip(parts, key, strict=True):
                yield duplicate(field_path / part, value)
        seen.add(key)
    name, field_path = claim.get("resourceClaimName"), path / "resourceClaimName"
    yield from validate_required_format(names.dns1123_subdomain, name, field_path)


def _validate_addresses(status: Tree, old_status: Tree, name: str) -> Iterator[FieldError]:
    path, found = _STATUS / name, status.get(name) or []
    kept = {one.get("ip") for one in old_status.get(name) or ()}
    shown = [one.get("ip") or "" for one in found]
    for index, address in enumerate(shown):
        if address not in kept:
            yield from validate_format(addresses.ip, address, path[index])
    if len(shown) < 2:
        return
    parsed = [addresses.address_of(address) for address in shown]
    if None in parsed:
        first = parsed.index(None)
        words = f"failed to check for dual stack with error:invalid IP[{first}]: {shown[first]}"
        yield FieldError("internal", path, words)
    versions = {one.version for one in parsed if one is not None}
    if len(shown) > 2 or None in parsed or len(versions) < 2:
        detail = "may specify no more than one IP for each IP family"
        yield invalid(path, [{"IP": address} for address in shown], detail)


def _validate_users(statuses: Sequence[Tree], path: Path, *, windows: bool) -> Iterator[FieldError]:
    for index, status in enumerate(statuses):
        user = (status.get("user") or {}).get("linux")
        if user is not None:
            yield from _validate_user(user, path[index] / "user" / "linux", windows=windows)


def _validate_allocated_resources(
    statuses: Sequence[Tree], spec: Tree, path: Path, kind: str
) -> Iterator[FieldError]:
    own = {one.get("name"): one for one in spec.get(kind) or ()}
    for index, status in enumerate(statuses):
        allocated = status.get("allocatedResourcesStatus") or ()
        status_path = path[index] / "allocatedResourcesStatus"
        if allocated and kind == "ephemeralContainers":
            yield forbidden(status_path, "must not be specified in container status")
            continue
        for number, resource in enumerate(allocated):
            yield from _validate_allocated_resource(
                resource, own.get(status.get("name")), status_path[number]
            )


def _validate_user(user: Tree, path: Path, *, windows: bool) -> Iterator[FieldError]:
    if windows:
        yield forbidden(path, "cannot be set for a windows pod")
        return
    for name in ("uid", "gid"):
        yield from validate_range(user.get(name) or 0, 0, INT32_MAX, path / name)
    for index, group in enumerate(user.get("supplementalGroups") or ()):
        yield from validate_range(group, 0, INT32_MAX, (path / "supplementalGroups")[index])


def _validate_allocated_resource(
    resource: Tree, container: Tree | None, path: Path
) -> Iterator[FieldError]:
    name = resource.get("name") or ""
    if container is not None:
        asked = container.get("resources") or {}
        if name.startswith("claim:"):
            detail = (
                "must match one of the container's resource claims in a format "
                "'claim:<claimName>/<request>' or 'claim:<claimName>' if request is empty"
            )
            known = [_claim_resource_name(claim) for claim in asked.get("claims") or ()]
        else:
            detail = "must match one of the container's resource requests"
            known = list(asked.get("requests") or ())
        if name not in known:
            yield invalid(path / "name", name, detail)
    seen: set[str] = set()
    for index, one in enumerate(resource.get("resources") or ()):
        item_path, health = (path / "resources")[index], one.get("health") or ""
        if health not in _HEALTH:
            yield not_supported(item_path / "health", health, _HEALTH)
        identity = one.get("resourceID") or ""
        if identity in seen:
            yield duplicate(item_path / "resourceID", identity)
        seen.add(identity)


def _claim_resource_name(claim: Tree) -> str:
    request = claim.get("request")
    return f"claim:{claim.get('name')}" + (f"/{request}" if request else "")
