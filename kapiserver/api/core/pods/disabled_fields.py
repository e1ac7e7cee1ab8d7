"""Disabled fields of pods: fields of features that are off by default in 1.37. Writes drop them
unless the old object uses them.

Mirrors the default behavior of DropDisabledPodFields in pkg/api/pod/util.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from kapiserver.api.accessors import value_at
from kapiserver.api.types import Tree

_Feature: TypeAlias = Sequence[Sequence[str]]
"""The paths of a feature's fields. A path goes through the items of lists."""

_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_STATUSES = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
_FILE_SOURCES = ("configMap", "secret", "downwardAPI")


def _container_paths(*paths: Sequence[str]) -> _Feature:
    return [(kind, *path) for kind in _CONTAINERS for path in paths]


_STOP_SIGNALS = _container_paths(("lifecycle", "stopSignal"))
_SPEC_FEATURES: Sequence[_Feature] = (
    [("schedulingGroup",)],
    [("evictionResponders",)],
    _STOP_SIGNALS,
    _container_paths(
        *((probe, "httpGet", "protocol") for probe in _PROBES),
        *(("lifecycle", hook, "httpGet", "protocol") for hook in ("postStart", "preStop")),
    ),
    _container_paths(*((probe, "grpc", "mode") for probe in _PROBES)),
    _container_paths(("volumeMounts", "bindMountOptions")),
    [("volumes", "emptyDir", "mode")],
    [
        *(("volumes", source, "defaultUser") for source in (*_FILE_SOURCES, "projected")),
        *(("volumes", source, "items", "user") for source in _FILE_SOURCES),
        *(("volumes", "projected", "sources", source, "items", "user") for source in _FILE_SOURCES),
        *(
            ("volumes", "projected", "sources", source, "user")
            for source in ("serviceAccountToken", "clusterTrustBundle", "podCertificate")
        ),
    ],
)
_STATUS_FEATURES: Sequence[_Feature] = (
    [("nodeAllocatableResourceClaimStatuses",)],
    [("volumeHealth",)],
    [(kind, "volumeMounts", "volumeStatus", "image") for kind in _STATUSES],
)


_Names: TypeAlias = dict[str, Any]
"""The paths of all features as a tree of names; those at the ends of paths are empty."""


def _names_of(features: Sequence[_Feature]) -> _Names:
    root: _Names = {}
    for path in (path for feature in features for path in feature):
        names = root
        for name in path:
            names = names.setdefault(name, {})
    return root


_SPEC_NAMES, _STATUS_NAMES = _names_of(_SPEC_FEATURES), _names_of(_STATUS_FEATURES)


def drop_disabled_spec_fields(new: Tree | None, old: Tree | None) -> None:
    """Drop disabled fields from the spec of a pod or of a pod template, in place, unless `old` uses
    them."""
    if not new or new is old:
        return
    if _has_any(new, _SPEC_NAMES):
        _drop_disabled_fields(new, old or {}, _SPEC_FEATURES)
    if _in_use(old or {}, _STOP_SIGNALS):
        return
    for kind in _CONTAINERS:
        containers = new.get(kind) or ()
        if any(container.get("lifecycle") == {} for container in containers):
            new[kind] = [_without_empty(container, "lifecycle") for container in containers]


def _without_empty(tree: Tree, name: str) -> Tree:
    return {key: value for key, value in tree.items() if key != name or value}


def drop_disabled_status_fields(new: Tree, old: Tree) -> None:
    """Drop disabled fields from the status of a pod, in place, unless `old` uses them."""
    if _has_any(new, _STATUS_NAMES):
        _drop_disabled_fields(new, old, _STATUS_FEATURES)


def drop_disabled_template_fields(new: Tree, old: Tree | None, *path: str) -> None:
    """Drop disabled fields from the pod template at a path of an object, in place, unless `old`
    uses them."""
    drop_disabled_spec_fields(
        value_at(new, *path, "spec"), value_at(old, *path, "spec") if old is not None else None
    )


def _drop_disabled_fields(new: Tree, old: Tree, features: Sequence[_Feature]) -> None:
    for feature in features:
        # An object with a field that `old` lacks everywhere is not shared with `old`.
        holders = [(obj, path[-1]) for path in feature for obj in _holders(new, path)]
        if holders and not _in_use(old, feature):
            for holder, name in holders:
                del holder[name]


def _has_any(tree: Any, names: _Names) -> bool:
    """Whether the tree has a field of any feature. Hardly any tree has."""
    for item in tree if isinstance(tree, list) else (tree,):
        for name in item or ():
            if name in names and (not names[name] or _has_any(item[name], names[name])):
                return True
    return False


def _in_use(tree: Tree, feature: _Feature) -> bool:
    return any(
        holder[path[-1]] not in (None, [], "")
        for path in feature
        for holder in _holders(tree, path)
    )


def _holders(tree: Any, path: Sequence[str]) -> Iterator[Tree]:
    """Yield the objects that have the field at the end of the path."""
    if isinstance(tree, list):
        for item in tree:
            yield from _holders(item, path)
    elif tree and path[0] in tree:
        if len(path) == 1:
            yield tree
        else:
            yield from _holders(tree[path[0]], path[1:])
