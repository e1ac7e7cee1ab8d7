"""Fields of pods behind features that are off in 1.37: writes lose them unless they were in use.

Mirrors the parts of pkg/api/pod/util.go (DropDisabledPodFields and its siblings) that act by
default. Knows no rule of what the fields say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from kapiserver.api.objects import value_at
from kapiserver.api.types import Tree

_Feature: TypeAlias = Sequence[Sequence[str]]
"""The paths of a feature's fields; lists on the way are gone through."""

_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_STATUSES = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
_FILES = ("configMap", "secret", "downwardAPI")


def _of_containers(*paths: Sequence[str]) -> _Feature:
    return [(kind, *path) for kind in _CONTAINERS for path in paths]


_STOP_SIGNALS = _of_containers(("lifecycle", "stopSignal"))
_IN_SPEC: Sequence[_Feature] = (
    [("schedulingGroup",)],
    [("evictionResponders",)],
    _STOP_SIGNALS,
    _of_containers(
        *((probe, "httpGet", "protocol") for probe in _PROBES),
        *(("lifecycle", hook, "httpGet", "protocol") for hook in ("postStart", "preStop")),
    ),
    _of_containers(*((probe, "grpc", "mode") for probe in _PROBES)),
    _of_containers(("volumeMounts", "bindMountOptions")),
    [("volumes", "emptyDir", "mode")],
    [
        *(("volumes", source, "defaultUser") for source in (*_FILES, "projected")),
        *(("volumes", source, "items", "user") for source in _FILES),
        *(("volumes", "projected", "sources", source, "items", "user") for source in _FILES),
        *(
            ("volumes", "projected", "sources", source, "user")
            for source in ("serviceAccountToken", "clusterTrustBundle", "podCertificate")
        ),
    ],
)
_IN_STATUS: Sequence[_Feature] = (
    [("nodeAllocatableResourceClaimStatuses",)],
    [("volumeHealth",)],
    [(kind, "volumeMounts", "volumeStatus", "image") for kind in _STATUSES],
)


def drop_from_spec(new: Tree | None, old: Tree | None) -> None:
    """Take them out of the spec of a pod or of a template, in place; `old` is what it was."""
    if not new or new is old:
        return
    _drop(new, old or {}, _IN_SPEC)
    if _in_use(old or {}, _STOP_SIGNALS):
        return
    for kind in _CONTAINERS:
        found = new.get(kind) or ()
        if any(one.get("lifecycle") == {} for one in found):
            new[kind] = [_without_empty(one, "lifecycle") for one in found]


def _without_empty(tree: Tree, name: str) -> Tree:
    return {key: value for key, value in tree.items() if key != name or value}


def drop_from_status(new: Tree, old: Tree) -> None:
    """The same for the status of a pod."""
    _drop(new, old, _IN_STATUS)


def drop_from_template(new: Tree, old: Tree | None, *path: str) -> None:
    """The same for the pod template that is at this path of an object."""
    drop_from_spec(
        value_at(new, *path, "spec"), value_at(old, *path, "spec") if old is not None else None
    )


def _drop(new: Tree, old: Tree, features: Sequence[_Feature]) -> None:
    for feature in features:
        # What holds a field that is nowhere in `old` is no part of `old`: it can be changed.
        given = (path for path in feature if path[0] in new)
        holders = [(one, path[-1]) for path in given for one in _holders(new, path)]
        if holders and not _in_use(old, feature):
            for holder, name in holders:
                del holder[name]


def _in_use(tree: Tree, feature: _Feature) -> bool:
    return any(
        holder[path[-1]] not in (None, [], "")
        for path in feature
        for holder in _holders(tree, path)
    )


def _holders(tree: Any, path: Sequence[str]) -> Iterator[Tree]:
    """The objects that have the field at the end of the path."""
    if isinstance(tree, list):
        for item in tree:
            yield from _holders(item, path)
    elif tree and path[0] in tree:
        if len(path) == 1:
            yield tree
        else:
            yield from _holders(tree[path[0]], path[1:])
