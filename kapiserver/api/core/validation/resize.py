"""Rules for `pods/resize`: which resources of a pod may change while it runs, and how.

Mirrors ValidatePodResize of pkg/apis/core/validation.
"""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api.core.quality_of_service import quality_of_service
from kapiserver.api.core.validation.pod_annotations import MIRROR
from kapiserver.api.core.validation.pods import validate_pod_metadata_and_spec
from kapiserver.api.errors import FieldError, Path, forbidden, invalid
from kapiserver.api.objects import annotations_of, value_at
from kapiserver.api.types import Tree

_SPEC = Path("spec")
_WHOLE = Path("[]")
_PARTS = ("requests", "limits")
_RESIZED = ("cpu", "memory")
_ONLY = "only cpu and memory resources"


def validate_pod_resize(new: Tree, old: Tree) -> Iterator[FieldError]:
    """A pod whose containers are to have more or less."""
    if MIRROR in annotations_of(old):
        yield forbidden(_WHOLE, "static pods cannot be resized")
        return
    if value_at(old, "spec", "os", "name") == "windows":
        yield forbidden(_WHOLE, "windows pods cannot be resized")
        return
    spec, old_spec = new["spec"], old["spec"]
    errors = [*validate_pod_metadata_and_spec(new), *_validate_pod_changes(new, old)]
    unlike = list(_validate_container_order(spec, old_spec))
    if not unlike:
        errors += _validate_container_changes(spec, old_spec)
    yield from errors
    yield from unlike
    if not errors and not unlike and _with_old_container_resources(spec, old_spec) != old_spec:
        yield forbidden(_SPEC, f"{_ONLY} are mutable")


def _validate_pod_changes(new: Tree, old: Tree) -> Iterator[FieldError]:
    status, spec, old_spec = old.get("status") or {}, new["spec"], old["spec"]
    if quality_of_service(new) != (status.get("qosClass") or quality_of_service(old)):
        shown = value_at(new, "status", "qosClass") or ""
        yield invalid(_SPEC, shown, "Pod QOS Class may not change as a result of resizing")
    if not _node_resizes(status):
        yield forbidden(_SPEC, "Pod running on node without support for resize")
    if any(value_at(one, "resources", part) for one in (spec, old_spec) for part in _PARTS):
        yield from _validate_pod_level_resources(spec.get("resources"), old_spec.get("resources"))
    if status.get("nodeAllocatableResourceClaimStatuses"):
        detail = "pods with node allocatable resource claims cannot be resized"
        yield forbidden(_SPEC, detail)


def _node_resizes(status: Tree) -> bool:
    """Whether the node tells what a running container has; without one, it is taken to."""
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
        yield forbidden(_SPEC, f"{_ONLY} are mutable at pod-level")


def _validate_container_order(spec: Tree, old_spec: Tree) -> Iterator[FieldError]:
    """Containers that are not those that were there, in their order."""
    for kind in ("containers", "initContainers"):
        containers, were = spec.get(kind) or (), old_spec.get(kind) or ()
        if len(containers) != len(were):
            yield forbidden(_SPEC / kind, f"{kind} may not be added or removed on resize")
            continue
        for index, (one, old) in enumerate(zip(containers, were, strict=True)):
            if one.get("name") != old.get("name"):
                detail = f"{kind} may not be renamed or reordered on resize"
                yield forbidden((_SPEC / kind)[index] / "name", detail)


def _validate_container_changes(spec: Tree, old_spec: Tree) -> Iterator[FieldError]:
    pairs = {
        kind: list(zip(spec.get(kind) or (), old_spec.get(kind) or (), strict=True))
        for kind in ("initContainers", "containers")
    }
    for kind, found in pairs.items():
        for index, (one, old) in enumerate(found):
            at = (_SPEC / kind)[index] / "resources"
            yield from _validate_resources_not_removed(
                one.get("resources"), old.get("resources"), at, "resource"
            )
    for one, old in pairs["containers"]:
        if _with_old_resources(one, old) != _with_resources(old):
            yield forbidden(_SPEC, f"{_ONLY} are mutable")
    for index, (one, old) in enumerate(pairs["initContainers"]):
        at = (_SPEC / "initContainers")[index]
        if _with_old_resources(one, old) != _with_resources(old):
            yield forbidden(at, f"{_ONLY} for init or sidecar containers are mutable")
        restarts = any(
            policy.get("restartPolicy") == "RestartContainer"
            for policy in one.get("resizePolicy") or ()
        )
        if one != old and restarts and one.get("restartPolicy") != "Always":
            detail = (
                "non-sidecar init containers with a resize policy of RestartContainer cannot be "
                "resized"
            )
            yield forbidden(at, detail)


def _validate_resources_not_removed(
    resources: Tree | None, old_resources: Tree | None, path: Path, what: str
) -> Iterator[FieldError]:
    for part in _PARTS:
        if ((old_resources or {}).get(part) or {}).keys() - (
            (resources or {}).get(part) or {}
        ).keys():
            yield forbidden(path / part, f"{what} {part} cannot be removed")


def _with_old_resources(container: Tree, old: Tree) -> Tree:
    """The container with what it had of what may be resized."""
    return {
        **container,
        "resources": _old_resizable_resources(container.get("resources"), old.get("resources")),
    }


def _with_resources(container: Tree) -> Tree:
    return {**container, "resources": container.get("resources") or {}}


def _old_resizable_resources(resources: Tree | None, old_resources: Tree | None) -> Tree:
    result = dict(resources or {})
    for part in _PARTS:
        had = ((old_resources or {}).get(part)) or {}
        asked = result.get(part) or {}
        rest = {name: text for name, text in asked.items() if name not in _RESIZED}
        rest.update({name: had[name] for name in _RESIZED if name in had})
        if rest:
            result[part] = rest
        else:
            result.pop(part, None)
    return result


def _with_old_container_resources(spec: Tree, old_spec: Tree) -> Tree:
    """The new spec with all that may be resized as it was."""
    result = dict(spec)
    for kind in ("containers", "initContainers"):
        if kind in result:
            pairs = zip(result[kind], old_spec[kind], strict=True)
            result[kind] = [
                {**one, "resources": old["resources"]} if "resources" in old else one
                for one, old in pairs
            ]
    if "resources" in old_spec:
        result["resources"] = old_spec["resources"]
    else:
        result.pop("resources", None)
    return result
