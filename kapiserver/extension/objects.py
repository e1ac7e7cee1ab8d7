"""The base of the classes of objects: `metadata`, `kind` and `apiVersion` of every object.

A kind is a subclass with the fields of its objects:

    class Database(Object):
        '''A database that the platform runs.'''

        spec: DatabaseSpec
        status: DatabaseStatus = field(default_factory=DatabaseStatus)

`read` makes an instance of a tree, `write` makes a tree of an instance, and `apply_changes` writes
what a function changed in an instance into the tree that it came from.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

import msgspec
from msgspec import Struct, field

from kapiserver.api.types import Tree
from kapiserver.extension.models import read_model, write_model


class OwnerReference(Struct, rename="camel", kw_only=True, omit_defaults=True):
    """An object that owns another one, as in meta/v1."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(Struct, rename="camel", kw_only=True, omit_defaults=True):
    """The metadata of an object, as in meta/v1. Times are texts of RFC 3339."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    self_link: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    owner_references: list[OwnerReference] = field(default_factory=list)
    finalizers: list[str] = field(default_factory=list)
    managed_fields: list[dict[str, Any]] = field(default_factory=list)


class Object(Struct, rename="camel", kw_only=True):
    """One object of the API; a subclass adds the fields of its kind.

    __resource__    the Resource that a subclass is declared by; `resource_of` returns it
    """

    __resource__: ClassVar[Any]

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = field(default_factory=ObjectMeta)


AnyObject = TypeVar("AnyObject", bound=Object)

_ABSENT = object()


def read(tree: Tree, type_: type[AnyObject]) -> AnyObject:
    """Return the object of a tree. Raises msgspec.ValidationError for one of another form."""
    return msgspec.convert(tree, type_, str_keys=True, dec_hook=read_model)


def write(obj: Object) -> Tree:
    """Return the tree of an object. A field that is None is absent."""
    tree: Tree = _without_none(msgspec.to_builtins(obj, str_keys=True, enc_hook=write_model))
    return tree


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_none(item) for name, item in value.items() if item is not None}
    return [_without_none(item) for item in value] if isinstance(value, list) else value


def apply_changes(tree: Tree, before: Tree, after: Tree) -> None:
    """Set the fields of a tree, in place, whose values differ between `before` and `after`. Fields
    that do not differ stay as they are written."""
    for name in before.keys() | after.keys():
        old, new = before.get(name, _ABSENT), after.get(name, _ABSENT)
        if old == new:
            continue
        if new is _ABSENT:
            tree.pop(name, None)
        elif isinstance(new, dict) and isinstance(old, dict) and isinstance(tree.get(name), dict):
            apply_changes(tree[name], old, new)
        else:
            tree[name] = new
