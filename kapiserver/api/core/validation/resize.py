"""Validation of `pods/resize`, which changes CPU and memory of a running pod.

Mirrors ValidatePodResize of pkg/apis/core/validation.
"""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api.accessors import annotations_of, value_at
from kapiserver.api.core.pods.quality_of_service import quality_of_service
from kapiserver.api.core.validation.pod_annotations import MIRROR
from kapiserver.api.core.validation.pods import validate_pod_metadata_and_spec
from kapiserver.api.errors import FieldError, Path, forbidden, invalid
from kapiserver.api.types import Tree

_SPEC = Path("spec")
_ROOT = Path("[]")
_RESOURCE_MAPS = ("requests", "limits")
_RESIZABLE = ("cpu", "memory")
_ONLY_CPU_AND_MEMORY = "only cpu and memory resources"


def validate_pod_resize(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Validate a pod whose resources are to change."""
    if MIRROR in annotations_of(old):
        yield forbidden(_ROOT, "static pods cannot be resized")
        return
    if value_at(old, "spec", "os", "name") == "windows":
        yield forbidden(_ROOT, "windows pods cannot be resized")
        return
    spec, old_spec = new["spec"], old["spec"]
    errors = [*validate_pod_metadata_and_spec(new), *_validate_pod_changes(new, old)]
    order_errors = list(_validate_container_order(spec, old_spec))
    if not order_errors:
        errors += _validate_container_changes(spec, old_spec)
    yield from errors
    yield from order_errors
    if (
        not errors
        and not order_errors
        and _with_old_container_resources(spec, old_spec) != old_spec
    ):
        yield forbidden(_SPEC, f"{_ONLY_CPU_AND_MEMORY} are mutable")


def _validate_pod_changes(new: Tree, old: Tree) -> Iterator[FieldError]:
    status, spec, old_spec = old.get("status") or {}, new["spec"], old["spec"]
    if quality_of_service(new) != (status.get("qosClass") or quality_of_service(old)):
        qos_class = value_at(new, "status", "qosClass") or ""
        yield invalid(_SPEC, qos_class, "Pod QOS Class may not change as a result of resizing")
    if not _node_supports_resize(status):
        yield forbidden(_SPEC, "Pod running on node without support for resize")
    if any(
        value_at(pod_spec, "resources", part)
        for pod_spec in (spec, old_spec)
        for part in _RESOURCE_MAPS
    ):
        yield from _validate_pod_level_resources(spec.get("resources"), old_spec.get("resources"))
    if status.get("nodeAllocatableResourceClaimStatuses"):
        detail = "pods with node allocatable resource claims cannot be resized"
        yield forbidden(_SPEC, detail)


def _node_supports_resize(status: Tree) -> bool:
    """Return whether the node reports the resources of running containers. A pod without a running
    container passes."""
    for container_status in status.get("containerStatuses") or ():
        if value_at(container_status, "state", "running") is not None:
            return container_status.get("resources") is not None
    return True


def _validate_pod_level_resources(
    resources: Tree | None, old_resources: Tree | None
) -> Iterator[FieldError]:
    path = _SPEC / "resources"
    if old_resources is not None and resources is None:
        yield forbidden(path, "pod-level resources cannot be removed")
        return
    yield from _validate_resources_not_removed(resources, old_resources, path, "pod-level resource")
    if _old_resizable_resources(resources, old_resources) != (old_resources or {}):
        yield forbidden(_SPEC, f"{_ONLY_CPU_AND_MEMORY} are mutable at pod-level")


def _validate_container_order(spec: Tree, old_spec: Tree) -> Iterator[FieldError]:
    """Validate that a resize keeps the containers and their order."""
    for kind in ("containers", "initContainers"):
        containers, old_containers = spec.get(kind) or (), old_spec.get(kind) or ()
        if len(containers) != len(old_containers):
            yield forbidden(_SPEC / kind, f"{kind} may not be added or removed on resize")
            continue
        for index, (container, old_container) in enumerate(
            zip(containers, old_containers, strict=True)
        ):
            if container.get("name") != old_container.get("name"):
                detail = f"{kind} may not be renamed or reordered on resize"
                yield forbidden((_SPEC / kind)[index] / "name", detail)


def _validate_container_changes(spec: Tree, old_spec: Tree) -> Iterator[FieldError]:
    pairs = {
        kind: list(zip(spec.get(kind) or (), old_spec.get(kind) or (), strict=True))
        for kind in ("initContainers", "containers")
    }
    for kind, container_pairs in pairs.items():
        for index, (container, old_container) in enumerate(container_pairs):
            resources_path = (_SPEC / kind)[index] / "resources"
            yield from _validate_resources_not_removed(
                container.get("resources"),
                old_container.get("resources"),
                resources_path,
                "resource",
            )
    for container, old_container in pairs["containers"]:
        if _with_old_resources(container, old_container) != _with_resources(old_container):
            yield forbidden(_SPEC, f"{_ONLY_CPU_AND_MEMORY} are mutable")
    for index, (container, old_container) in enumerate(pairs["initContainers"]):
        container_path = (_SPEC / "initContainers")[index]
        if _with_old_resources(container, old_container) != _with_resources(old_container):
            yield forbidden(
                container_path, f"{_ONLY_CPU_AND_MEMORY} for init or sidecar containers are mutable"
            )
        restarts = any(
            policy.get("restartPolicy") == "RestartContainer"
            for policy in container.get("resizePolicy") or ()
        )
        if container != old_container and restarts and container.get("restartPolicy") != "Always":
            detail = (
                "non-sidecar init containers with a resize policy of RestartContainer cannot be "
                "resized"
            )
            yield forbidden(container_path, detail)


def _validate_resources_not_removed(
    resources: Tree | None, old_resources: Tree | None, path: Path, kind: str
) -> Iterator[FieldError]:
    for map_name in _RESOURCE_MAPS:
        if ((old_resources or {}).get(map_name) or {}).keys() - (
            (resources or {}).get(map_name) or {}
        ).keys():
            yield forbidden(path / map_name, f"{kind} {map_name} cannot be removed")


def _with_old_resources(container: Tree, old: Tree) -> Tree:
    """Return the container with the resizable resources of the old container."""
    return {
        **container,
        "resources": _old_resizable_resources(container.get("resources"), old.get("resources")),
    }


def _with_resources(container: Tree) -> Tree:
    return {**container, "resources": container.get("resources") or {}}


def _old_resizable_resources(resources: Tree | None, old_resources: Tree | None) -> Tree:
    result = dict(resources or {})
    for map_name in _RESOURCE_MAPS:
        old_amounts = ((old_resources or {}).get(map_name)) or {}
        new_amounts = result.get(map_name) or {}
        amounts = {name: text for name, text in new_amounts.items() if name not in _RESIZABLE}
        amounts.update({name: old_amounts[name] for name in _RESIZABLE if name in old_amounts})
        if amounts:
            result[map_name] = amounts
        else:
            result.pop(map_name, None)
    return result


def _with_old_container_resources(spec: Tree, old_spec: Tree) -> Tree:
    """Return the new spec with the resources of the old spec."""
    result = dict(spec)
    for kind in ("containers", "initContainers"):
        if kind in result:
            pairs = zip(result[kind], old_spec[kind], strict=True)
            result[kind] = [
                {**container, "resources": old["resources"]} if "resources" in old else container
                for container, old in pairs
            ]
    if "resources" in old_spec:
        result["resources"] = old_spec["resources"]
    else:
        result.pop("resources", None)
    return result
