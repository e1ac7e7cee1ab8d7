"""Validation of pod statuses, which the kubelet and the scheduler write."""

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
from kapiserver.api.metadata_validation import immutable
from kapiserver.api.types import Tree

_STATUS = Path("status")
_STANDARD_CONDITIONS = ("PodScheduled", "Ready", "Initialized")
_HEALTH_STATES = ("Healthy", "Unhealthy", "Unknown")
_NO_GENERATION = "must be a non-negative integer"
_STATUS_LISTS = (
    ("containerStatuses", "containers"),
    ("initContainerStatuses", "initContainers"),
    ("ephemeralContainerStatuses", "ephemeralContainers"),
)


def validate_pod_status_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Validate an updated pod status."""
    status = new.get("status") or {}
    old_status = old.get("status") or {}
    spec = new.get("spec") or {}
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
    for name, kind in _STATUS_LISTS:
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
    for name, _ in _STATUS_LISTS:
        yield from _validate_users(status.get(name) or (), _STATUS / name, windows=windows)
    for name, kind in _STATUS_LISTS:
        yield from _validate_allocated_resources(status.get(name) or (), spec, _STATUS / name, kind)


def _validate_conditions(conditions: Sequence[Tree]) -> Iterator[FieldError]:
    for index, condition in enumerate(conditions):
        condition_path, kind = (_STATUS / "conditions")[index], condition.get("type") or ""
        if (condition.get("observedGeneration") or 0) < 0:
            observed_generation_path = condition_path / "observedGeneration"
            yield invalid(observed_generation_path, condition["observedGeneration"], _NO_GENERATION)
        if kind not in _STANDARD_CONDITIONS:
            yield from validate_format(
                names.qualified_name, kind, condition_path / "Type"
            )  # "Type" as in kube-apiserver's messages


def _validate_state_transitions(
    status: Tree, old_status: Tree, spec: Tree, name: str, kind: str
) -> Iterator[FieldError]:
    """Validate that a container that terminated for good does not run again."""
    statuses: dict[str | None, list[Tree]] = {}
    for container_status in status.get(name) or ():
        statuses.setdefault(container_status.get("name"), []).append(container_status)
    for index, old in enumerate(old_status.get(name) or ()):
        terminated = (old.get("state") or {}).get("terminated")
        is_running = any(
            (container_status.get("state") or {}).get("terminated") is None
            for container_status in statuses.get(old.get("name"), ())
        )
        if terminated is None or not is_running:
            continue
        if not _may_restart(spec, kind, old.get("name"), terminated.get("exitCode") or 0):
            detail = "may not be transitioned to non-terminated state"
            yield forbidden((_STATUS / name)[index] / "state", detail)


def _may_restart(spec: Tree, kind: str, name: str | None, exit_code: int) -> bool:
    """Return whether the container may restart after it exited with `exit_code`."""
    if kind == "ephemeralContainers":
        return False
    if _may_restart_all_containers(spec):
        return True
    container = next(
        (candidate for candidate in spec.get(kind) or () if candidate.get("name") == name), None
    )
    if container is None and kind == "containers":
        return False
    policy = (container or {}).get("restartPolicy") or spec.get("restartPolicy")
    rules = (container or {}).get("restartPolicyRules") or ()
    return (
        any(_matches_exit_code(rule.get("exitCodes") or {}, exit_code) for rule in rules)
        or policy == "Always"
        or (policy == "OnFailure" and exit_code != 0)
    )


def _may_restart_all_containers(spec: Tree) -> bool:
    return any(
        rule.get("action") == "RestartAllContainers"
        for kind in ("initContainers", "containers")
        for container in spec.get(kind) or ()
        for rule in container.get("restartPolicyRules") or ()
    )


def _matches_exit_code(codes: Tree, code: int) -> bool:
    return (code in (codes.get("values") or ())) == (codes.get("operator") == "In")


def _validate_resource_claim_statuses(
    statuses: Sequence[Tree] | None, spec: Tree
) -> Iterator[FieldError]:
    claim_names = {claim.get("name") for claim in spec.get("resourceClaims") or ()}
    seen: set[str] = set()
    for index, status in enumerate(statuses or ()):
        status_path, name = (_STATUS / "resourceClaimStatuses")[index], status.get("name") or ""
        if name not in claim_names:
            detail = "must match the name of an entry in `spec.resourceClaims`"
            yield invalid(status_path / "name", name, detail)
        if name in seen:
            yield duplicate(status_path / "name", name)
        seen.add(name)
        if status.get("resourceClaimName") is not None:
            claim = status["resourceClaimName"]
            yield from validate_format(names.dns1123_subdomain, claim, status_path / "name")


def _validate_extended_resource_claim(claim: Tree, spec: Tree, path: Path) -> Iterator[FieldError]:
    """Validate the claim that the scheduler created for extended resources that containers
    request."""
    all_containers = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    containers = {container.get("name"): container for container in all_containers}
    mappings = claim.get("requestMappings") or ()
    if not mappings:
        yield required(path / "requestMappings", "at least one request mapping is required")
    seen: set[tuple[str, ...]] = set()
    for index, mapping in enumerate(mappings):
        field_path = (path / "requestMappings")[index]
        key_fields = ("containerName", "resourceName", "requestName")
        container_name, resource_name, request_name = key = tuple(
            mapping.get(key_field) or "" for key_field in key_fields
        )
        container = containers.get(container_name)
        if container is None:
            detail = (
                "must match the name of an entry in spec.initContainers.name or "
                "spec.containers.name"
            )
            yield invalid(field_path / "containerName", container_name, detail)
        elif resource_name not in ((container.get("resources") or {}).get("requests") or ()):
            detail = (
                "must match the extended resource name of an entry in "
                "spec.initContainers.resources.requests or spec.containers.resources.requests"
            )
            yield invalid(field_path / "resourceName", resource_name, detail)
        # As in kube-apiserver, the path has no index.
        yield from validate_format(names.dns1123_label, request_name, path / "requestName")
        if key in seen:
            for key_field, value in zip(key_fields, key, strict=True):
                yield duplicate(field_path / key_field, value)
        seen.add(key)
    name, field_path = claim.get("resourceClaimName"), path / "resourceClaimName"
    yield from validate_required_format(names.dns1123_subdomain, name, field_path)


def _validate_addresses(status: Tree, old_status: Tree, name: str) -> Iterator[FieldError]:
    path, entries = _STATUS / name, status.get(name) or []
    old_ips = {address.get("ip") for address in old_status.get(name) or ()}
    ips = [address.get("ip") or "" for address in entries]
    for index, address in enumerate(ips):
        if address not in old_ips:
            yield from validate_format(addresses.ip, address, path[index])
    if len(ips) < 2:
        return
    parsed = [addresses.address_of(address) for address in ips]
    if None in parsed:
        invalid_index = parsed.index(None)
        problem = f"invalid IP[{invalid_index}]: {ips[invalid_index]}"
        message = f"failed to check for dual stack with error:{problem}"
        yield FieldError("internal", path, message)
    versions = {address.version for address in parsed if address is not None}
    if len(ips) > 2 or None in parsed or len(versions) < 2:
        detail = "may specify no more than one IP for each IP family"
        yield invalid(path, [{"IP": address} for address in ips], detail)


def _validate_users(statuses: Sequence[Tree], path: Path, *, windows: bool) -> Iterator[FieldError]:
    for index, status in enumerate(statuses):
        user = (status.get("user") or {}).get("linux")
        if user is not None:
            yield from _validate_user(user, path[index] / "user" / "linux", windows=windows)


def _validate_allocated_resources(
    statuses: Sequence[Tree], spec: Tree, path: Path, kind: str
) -> Iterator[FieldError]:
    containers = {container.get("name"): container for container in spec.get(kind) or ()}
    for index, status in enumerate(statuses):
        allocated = status.get("allocatedResourcesStatus") or ()
        status_path = path[index] / "allocatedResourcesStatus"
        if allocated and kind == "ephemeralContainers":
            yield forbidden(status_path, "must not be specified in container status")
            continue
        for number, resource in enumerate(allocated):
            yield from _validate_allocated_resource(
                resource, containers.get(status.get("name")), status_path[number]
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
        requirements = container.get("resources") or {}
        if name.startswith("claim:"):
            detail = (
                "must match one of the container's resource claims in a format "
                "'claim:<claimName>/<request>' or 'claim:<claimName>' if request is empty"
            )
            allowed_names = [
                _claim_resource_name(claim) for claim in requirements.get("claims") or ()
            ]
        else:
            detail = "must match one of the container's resource requests"
            allowed_names = list(requirements.get("requests") or ())
        if name not in allowed_names:
            yield invalid(path / "name", name, detail)
    seen: set[str] = set()
    for index, health_status in enumerate(resource.get("resources") or ()):
        item_path, health = (path / "resources")[index], health_status.get("health") or ""
        if health not in _HEALTH_STATES:
            yield not_supported(item_path / "health", health, _HEALTH_STATES)
        identity = health_status.get("resourceID") or ""
        if identity in seen:
            yield duplicate(item_path / "resourceID", identity)
        seen.add(identity)


def _claim_resource_name(claim: Tree) -> str:
    request = claim.get("request")
    return f"claim:{claim.get('name')}" + (f"/{request}" if request else "")
