"""Reading metadata of an object tree: the accessors that every layer uses.

Knows ObjectMeta's names and nothing of any kind. Reading never changes the tree; `metadata_of`
is the one accessor that may add an empty `metadata`.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping
from typing import Any

import orjson

from kapiserver.api.group import GroupVersion, GroupVersionKind
from kapiserver.api.types import Tree

_EMPTY: Mapping[str, Any] = {}


def metadata_of(obj: Tree) -> Tree:
    """The object's metadata, to change; added when missing."""
    found = obj.get("metadata")
    if not isinstance(found, dict):
        found = obj["metadata"] = {}
    return found


def _meta(obj: Tree) -> Mapping[str, Any]:
    return obj.get("metadata") or _EMPTY


def name_of(obj: Tree) -> str:
    """`metadata.name`, or ""."""
    return _meta(obj).get("name") or ""


def namespace_of(obj: Tree) -> str:
    """`metadata.namespace`, or ""."""
    return _meta(obj).get("namespace") or ""


def uid_of(obj: Tree) -> str:
    """`metadata.uid`, or ""."""
    return _meta(obj).get("uid") or ""


def resource_version_of(obj: Tree) -> str:
    """`metadata.resourceVersion`, or ""."""
    return _meta(obj).get("resourceVersion") or ""


def labels_of(obj: Tree) -> Mapping[str, str]:
    """`metadata.labels`, or an empty mapping."""
    return _meta(obj).get("labels") or _EMPTY


def annotations_of(obj: Tree) -> Mapping[str, str]:
    """`metadata.annotations`, or an empty mapping."""
    return _meta(obj).get("annotations") or _EMPTY


def finalizers_of(obj: Tree) -> list[str]:
    """`metadata.finalizers`, or an empty list."""
    return _meta(obj).get("finalizers") or []


def generation_of(obj: Tree) -> int:
    """`metadata.generation`, or 0."""
    return _meta(obj).get("generation") or 0


def is_terminating(obj: Tree) -> bool:
    """Whether deletion was asked for and is not done."""
    return bool(_meta(obj).get("deletionTimestamp"))


def kind_of(obj: Tree) -> GroupVersionKind:
    """What the object says it is; parts that it does not say are empty.

    Raises ValueError for an `apiVersion` with two slashes.
    """
    return _kind(obj.get("apiVersion") or "", obj.get("kind") or "")


@functools.lru_cache(maxsize=1024)
def _kind(api_version: str, kind: str) -> GroupVersionKind:
    return GroupVersion.parse(api_version).with_kind(kind)


def value_at(obj: Tree, *path: str) -> Any:
    """The value below nested keys, or None where one is missing or no object."""
    found: Any = obj
    for name in path:
        if not isinstance(found, dict):
            return None
        found = found.get(name)
    return found


def has_condition(obj: Tree, name: str, status: str = "True") -> bool:
    """Whether one of the conditions of the object's status is of that name and state."""
    return any(
        one.get("type") == name and one.get("status") == status
        for one in value_at(obj, "status", "conditions") or ()
    )


def share_field(new: Tree, old: Tree, name: str) -> None:
    """Give `new` the field of `old`, or none where `old` has none. The value is shared: for trees
    that are compared, or whose old one is given up."""
    if old.get(name) is None:
        new.pop(name, None)
    else:
        new[name] = old[name]


def copy_tree(value: Any) -> Any:
    """A JSON-shaped value of one's own; by way of text, which is faster than walking it."""
    try:
        return orjson.loads(orjson.dumps(value))
    except (orjson.JSONEncodeError, orjson.JSONDecodeError):  # text that is none, too deep
        return copy.deepcopy(value)


_TEXT_PART = 8


def is_larger_than(value: Any, weight: int) -> bool:
    """Whether a value has more parts than that; eight characters of text are one."""
    open_ = [value]
    while open_ and weight >= 0:
        one = open_.pop()
        weight -= 1
        if isinstance(one, dict):
            weight -= len(one)  # the names, however long
            open_.extend(one.values())
        elif isinstance(one, list):
            open_.extend(one)
        elif isinstance(one, str):
            weight -= len(one) // _TEXT_PART
    return weight < 0
