"""Rules for `pods/resize`: which resources of running containers may change, and how.

Mirrors ValidatePodResize of pkg/apis/core/validation.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

from kapiserver.api.core import v1
from kapiserver.api.core.quality_of_service import quality_of_service
from kapiserver.api.core.validation.difference import difference
from kapiserver.api.core.validation.pod_annotations import MIRROR
from kapiserver.api.core.validation.pods import pod_itself
from kapiserver.api.errors import FieldError, Path, forbidden, invalid
from kapiserver.api.objects import annotations_of, value_at
from kapiserver.api.types import Tree

_SPEC = Path("spec")
_RESIZED = ("cpu", "memory")


def resized_pod(new: Tree, old: Tree) -> Iterator[FieldError]:
    """A pod whose containers are to have more or less."""
    yield from pod_itself(new)
    if MIRROR in annotations_of(old):
        yield forbidden(Path(), "static pods cannot be resized")
        return
    if value_at(old, "spec", "os", "name") == "windows":
        yield forbidden(Path(), "windows pods cannot be resized")
        return
    before = value_at(old, "status", "qosClass") or quality_of_service(old)
    if quality_of_service(new) != before:
        shown = value_at(new, "status", "qosClass") or ""
        yield invalid(_SPEC, shown, "Pod QOS Class may not change as a result of resizing")
    yield from _containers(new["spec"], old["spec"])
    if _without_resized(new["spec"]) != _without_resized(old["spec"]):
        shown = difference(old["spec"], new["spec"], v1.PodSpec)
        yield forbidden(_SPEC, f"only cpu and memory resources are mutable\n{shown}")


def _containers(spec: Tree, before: Tree) -> Iterator[FieldError]:
    for kind in ("containers", "initContainers"):
        pairs = zip(spec.get(kind) or (), before.get(kind) or (), strict=False)
        for index, (container, old) in enumerate(pairs):
            path = (_SPEC / kind)[index] / "resources"
            for part, word in (("requests", "requests"), ("limits", "limits")):
                had = value_at(old, "resources", part) or {}
                has = value_at(container, "resources", part) or {}
                if any(name in had and name not in has for name in _RESIZED):
                    yield forbidden(path / part, f"resource {word} cannot be removed")
            sidecar = kind == "containers" or old.get("restartPolicy") == "Always"
            if not sidecar and container.get("resources") != old.get("resources"):
                detail = "only cpu and memory resources for sidecar containers are mutable"
                yield forbidden(_SPEC, detail)


def _without_resized(spec: Tree) -> Tree:
    found = copy.deepcopy(spec)
    for kind in ("containers", "initContainers"):
        for container in found.get(kind) or ():
            resources = container.get("resources") or {}
            for part in ("requests", "limits"):
                rest = {k: v for k, v in (resources.get(part) or {}).items() if k not in _RESIZED}
                resources[part] = rest
            container["resources"] = resources
    return found
