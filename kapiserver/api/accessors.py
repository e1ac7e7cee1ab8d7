"""Accessors of an object tree: metadata, kind, conditions, nested values.

Knows the fields of ObjectMeta, and no kind. Accessors do not change the tree, except `metadata_of`,
which adds missing metadata.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from kapiserver.api.group import GroupVersion, GroupVersionKind
from kapiserver.api.types import Tree

_EMPTY: Mapping[str, Any] = {}
# Accessors call no other accessor: a write calls them thirty times.


def metadata_of(obj: Tree) -> Tree:
    """Return the object's metadata for modification; adds empty metadata if it is missing."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict):
        metadata = obj["metadata"] = {}
    return metadata


def name_of(obj: Tree) -> str:
    """Return `metadata.name`, or ""."""
    return (obj.get("metadata") or _EMPTY).get("name") or ""


def namespace_of(obj: Tree) -> str:
    """Return `metadata.namespace`, or ""."""
    return (obj.get("metadata") or _EMPTY).get("namespace") or ""


def uid_of(obj: Tree) -> str:
    """Return `metadata.uid`, or ""."""
    return (obj.get("metadata") or _EMPTY).get("uid") or ""


def resource_version_of(obj: Tree) -> str:
    """Return `metadata.resourceVersion`, or ""."""
    return (obj.get("metadata") or _EMPTY).get("resourceVersion") or ""


def labels_of(obj: Tree) -> Mapping[str, str]:
    """Return `metadata.labels`, or an empty mapping."""
    return (obj.get("metadata") or _EMPTY).get("labels") or _EMPTY


def annotations_of(obj: Tree) -> Mapping[str, str]:
    """Return `metadata.annotations`, or an empty mapping."""
    return (obj.get("metadata") or _EMPTY).get("annotations") or _EMPTY


def finalizers_of(obj: Tree) -> list[str]:
    """Return `metadata.finalizers`, or an empty list."""
    return (obj.get("metadata") or _EMPTY).get("finalizers") or []


def generation_of(obj: Tree) -> int:
    """Return `metadata.generation`, or 0."""
    return (obj.get("metadata") or _EMPTY).get("generation") or 0


def next_generation(generation: int) -> int:
    """Return the generation after a change; after the largest int64 the smallest, as in Go."""
    return generation + 1 if generation < _INT64_MAX else -_INT64_MAX - 1


_INT64_MAX = (1 << 63) - 1


def owners_of(obj: Tree) -> Sequence[Tree]:
    """Return `metadata.ownerReferences`, or an empty sequence."""
    return (obj.get("metadata") or _EMPTY).get("ownerReferences") or ()


def controller_of(obj: Tree) -> Tree | None:
    """Return the reference of an object to the owner that controls it, or None."""
    return next((owner for owner in owners_of(obj) if owner.get("controller")), None)


def is_terminating(obj: Tree) -> bool:
    """Report whether the object has a deletionTimestamp."""
    return bool((obj.get("metadata") or _EMPTY).get("deletionTimestamp"))


def kind_of(obj: Tree) -> GroupVersionKind:
    """Return the group, version and kind of the object; missing parts are empty.

    Raises ValueError for an `apiVersion` with two slashes.
    """
    api_version, kind = obj.get("apiVersion") or "", obj.get("kind") or ""
    if len(api_version) + len(kind) > _MAX_CACHED_LENGTH:
        return GroupVersion.parse(api_version).with_kind(kind)
    return _kind(api_version, kind)


_MAX_CACHED_LENGTH = 512


@functools.lru_cache(maxsize=1024)
def _kind(api_version: str, kind: str) -> GroupVersionKind:
    return GroupVersion.parse(api_version).with_kind(kind)


def value_at(obj: Tree, *path: str) -> Any:
    """Return the value below nested keys; None if one is missing or a parent is not an object."""
    value: Any = obj
    for name in path:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def has_condition(obj: Tree, name: str, status: str = "True") -> bool:
    """Report whether the object's status has a condition with this type and status."""
    return any(
        condition.get("type") == name and condition.get("status") == status
        for condition in value_at(obj, "status", "conditions") or ()
    )


def share_field(new: Tree, old: Tree, name: str) -> None:
    """Set a field of `new` to that of `old`, or remove it if `old` has none.

    The value is shared: only for trees that are compared, or if `old` is discarded.
    """
    if old.get(name) is None:
        new.pop(name, None)
    else:
        new[name] = old[name]


def copy_tree(value: Any) -> Any:
    """Return a deep copy of a JSON-shaped value, made by way of JSON, which is faster than
    deepcopy."""
    try:
        return orjson.loads(orjson.dumps(value))
    except (
        orjson.JSONEncodeError,
        orjson.JSONDecodeError,
    ):  # strings that are not UTF-8, or nested too deeply
        return copy.deepcopy(value)


_PART_CHARACTERS = 8


def is_larger_than(value: Any, size: int) -> bool:
    """Report whether a value has more than `size` parts; eight characters of text are one part."""
    pending = [value]
    while pending and size >= 0:
        part = pending.pop()
        size -= 1
        if isinstance(part, dict):
            size -= len(part)  # keys, whatever their length
            pending.extend(part.values())
        elif isinstance(part, list):
            pending.extend(part)
        elif isinstance(part, str):
            size -= len(part) // _PART_CHARACTERS
    return size < 0
