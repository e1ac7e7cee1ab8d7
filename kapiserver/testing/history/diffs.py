"""The differences of two objects, as lines that name the field."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from kapiserver.api.types import Tree

_IDENTITIES = ("name", "type", "uid", "key", "ip", "containerPort", "port")
"""Fields that identify the items of a list."""
_MISSING = object()


class Change(Struct, frozen=True):
    """One field that differs.

    path    `spec.containers[name=app].image`
    old     the value before; None if there was none
    new     the value after; None if there is none
    """

    path: str
    old: Any
    new: Any

    def __str__(self) -> str:
        if self.old is None:
            return f"+ {self.path}: {_text(self.new)}"
        if self.new is None:
            return f"- {self.path}: {_text(self.old)}"
        return f"  {self.path}: {_text(self.old)} -> {_text(self.new)}"


def changes(old: Tree | None, new: Tree | None) -> list[Change]:
    """Return the fields that differ, metadata.resourceVersion and managedFields left out."""
    return list(_changes("", _without_server_fields(old), _without_server_fields(new)))


def _without_server_fields(obj: Tree | None) -> Tree:
    if obj is None:
        return {}
    omitted_fields = ("resourceVersion", "managedFields")
    metadata = {k: v for k, v in (obj.get("metadata") or {}).items() if k not in omitted_fields}
    return obj | {"metadata": metadata}


def _changes(path: str, old: Any, new: Any) -> Iterator[Change]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys((*old, *new)):
            below = f"{path}.{key}" if path else key
            yield from _changes(below, old.get(key, _MISSING), new.get(key, _MISSING))
    elif isinstance(old, list) and isinstance(new, list):
        identity = _identity(old, new)
        old_items, new_items = _by_identity(old, identity), _by_identity(new, identity)
        for key in dict.fromkeys((*old_items, *new_items)):
            before, after = old_items.get(key, _MISSING), new_items.get(key, _MISSING)
            yield from _changes(f"{path}[{key}]", before, after)
    elif old != new:
        yield Change(path, None if old is _MISSING else old, None if new is _MISSING else new)


def _identity(old: list[Any], new: list[Any]) -> str:
    """Return the field that identifies the items of both lists, or ""."""
    for name in _IDENTITIES:
        if all(
            all(isinstance(item, dict) and name in item for item in items)
            and len({str(item[name]) for item in items}) == len(items)
            for items in (old, new)
        ):
            return name
    return ""


def _by_identity(items: list[Any], identity: str) -> dict[str, Any]:
    if not identity:
        return {str(index): item for index, item in enumerate(items)}
    return {f"{identity}={item[identity]}": item for item in items}


def _text(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 200 else f"{text[:200]}..."


def json_patch(old: Any, new: Any, path: str = "") -> list[Tree]:
    """Return the operations of a JSON patch that makes `new` of `old`. A list that differs is
    replaced as a whole."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return [] if old == new else [{"op": "replace", "path": path, "value": new}]
    operations = []
    for key in dict.fromkeys((*old, *new)):
        below = f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
        if key not in new:
            operations.append({"op": "remove", "path": below})
        elif key not in old:
            operations.append({"op": "add", "path": below, "value": new[key]})
        else:
            operations.extend(json_patch(old[key], new[key], below))
    return operations
