"""Keeping managedFields at every write: which FieldManager follows a request, under whose name.

The bookkeeping itself is `api/managed_fields.py`; here it meets a scheme, a target and a request.
Mirrors the use of the FieldManager in k8s.io/apiserver/pkg/endpoints/handlers.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kapiserver.api import typed_values
from kapiserver.api.accessors import metadata_of
from kapiserver.api.errors import ConversionFailed, NotRegistered
from kapiserver.api.group import GroupVersion, GroupVersionKind
from kapiserver.api.managed_fields import FieldManager
from kapiserver.api.managed_fields_entries import managed_fields_of
from kapiserver.api.merge_schema import Node, schema_of
from kapiserver.api.scheme import Scheme
from kapiserver.api.typed_values import SchemaMismatch
from kapiserver.api.types import Kind, Tree
from kapiserver.apiserver.caller import Caller
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.endpoints.tables import in_version
from kapiserver.apiserver.target import Target
from kapiserver.codecs.tree_decoder import decode_tree
from kapiserver.storage.lifecycle import timestamp

if TYPE_CHECKING:
    from kapiserver.api.custom_kinds import Definition
    from kapiserver.apiserver.customresources.converted_objects import ConvertedObjectCache

_MANAGER_LENGTH = 128


@dataclass(frozen=True, slots=True)
class KindSchemas:
    """One kind of the scheme in all its versions."""

    scheme: Scheme
    kind: GroupVersionKind
    converted: ConvertedObjectCache | None = None
    """What webhooks make of objects; None: fields of the same names are the same."""

    def _in(self, api_version: str) -> GroupVersionKind:
        version = GroupVersion.parse(api_version)
        if version.group != self.kind.group:
            raise NotRegistered(f"{api_version} is no version of {self.kind}")
        return version.with_kind(self.kind.kind)

    def node(self, api_version: str) -> Node:
        """The kind's schema in a version. Raises NotRegistered."""
        return schema_of(self.scheme.type_of(self._in(api_version)))

    def convert(self, obj: Tree, api_version: str) -> Tree:
        """The object in another version. Raises NotRegistered, FetchRequired."""
        if obj["apiVersion"] == api_version:
            return obj
        kind = self._in(api_version)
        here = self._in(obj["apiVersion"])
        webhook = self.scheme.object_info(kind).conversion_webhook
        if webhook is not None:
            return self._by_webhook(webhook, obj, kind.group_version)
        try:
            canonical = decode_tree(self.scheme.type_of(here), obj, [])
            return self.scheme.convert(canonical, kind.group_version)
        except ConversionFailed as error:
            raise NotRegistered(str(error)) from None

    def _by_webhook(self, definition: Definition, obj: Tree, version: GroupVersion) -> Tree:
        if self.converted is None:
            return {**obj, "apiVersion": str(version)}
        found = self.converted.find(definition, obj, version)
        try:
            typed_values.check(self.node(str(version)), found)
        except SchemaMismatch as error:
            raise NotRegistered(str(error)) from None
        return found

    def empty(self, api_version: str) -> Tree:
        """The object with nothing set. Shared."""
        kind = self._in(api_version)
        if not self.scheme.object_info(kind).is_typed:
            return {"kind": kind.kind, "apiVersion": api_version, "metadata": {}}
        type_: Any = self.scheme.type_of(kind)
        return _empty(type_, kind.kind, api_version)


@functools.lru_cache(maxsize=512)
def _empty(type_: type[Kind], kind: str, api_version: str) -> Tree:
    return decode_tree(type_, {"kind": kind, "apiVersion": api_version}, [])


def field_manager(server: Server, target: Target, *, is_new: bool = False) -> FieldManager:
    """What follows writes to the target, in the version of its bodies. What it does may raise
    FetchRequired but for a new object, whose fields are the writer's."""
    scheme = server.scheme
    asks = not target.kind_info.is_typed and not is_new
    converted = server.custom_resources.converted if asks else None
    kind = _kind_of(target)
    return FieldManager(
        schemas=KindSchemas(scheme, kind, converted),
        version=str(kind.group_version),
        subresource=target.subresource,
        ignored=target.strategy.reset_fields,
    )


def _kind_of(target: Target) -> GroupVersionKind:
    """Whose fields have owners: the body's, or those of the object of which it is a view."""
    if target.view is None:
        return target.kind
    return target.version.with_kind(target.resource.kind)


def manager_of(caller: Caller, options: Tree) -> str:
    """Who writes: the `fieldManager` asked for, else the program the User-Agent names."""
    asked = options.get("fieldManager")
    if asked:
        return str(asked)
    name = caller.user_agent.partition("/")[0]
    return "".join(one for one in name if one.isprintable())[:_MANAGER_LENGTH]


def track_ownership(
    server: Server,
    caller: Caller,
    target: Target,
    options: Tree,
    *,
    live: Tree | None,
    new: Tree,
) -> None:
    """Note in `new` who owns its fields after this write; both in the hub version. Raises
    FetchRequired."""
    scheme = server.scheme
    fields = field_manager(server, target, is_new=live is None)
    version = _kind_of(target).group_version
    before = None if live is None else in_version(scheme, live, version)
    after = in_version(scheme, new, version)
    try:
        if not target.kind_info.is_typed:  # trees of a declared type fit it, these may not
            for tree in (before, after):
                typed_values.check(fields.schemas.node(fields.version), tree)
        entries = fields.update(
            before,
            after,
            manager=manager_of(caller, options),
            now=now_of(server),
        )
    except SchemaMismatch:
        # What does not fit has no owners to note; validation will say what it thinks of it.
        entries = [] if live is None else managed_fields_of(live)
    put_entries(new, entries)


def put_entries(obj: Tree, entries: list[Tree]) -> None:
    """Give an object these managedFields."""
    metadata = metadata_of(obj)
    metadata.pop("managedFields", None)
    if entries:
        metadata["managedFields"] = entries  # which stands last


def now_of(server: Server) -> str:
    """The moment of this write, as entries show it."""
    return timestamp(server.clock.now())
