"""Update managedFields on every write.

`api/apply/managed_fields.py` computes the entries; this module gives it the schemas, the target and
the name of the manager. Mirrors the use of the FieldManager in pkg/endpoints/handlers of
k8s.io/apiserver.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from kapiserver.api.accessors import metadata_of
from kapiserver.api.apply import typed_values
from kapiserver.api.apply.managed_fields import FieldManager
from kapiserver.api.apply.managed_fields_entries import managed_fields_of
from kapiserver.api.apply.merge_schema import Node, schema_of
from kapiserver.api.apply.typed_values import SchemaMismatch
from kapiserver.api.errors import BadObject, ConversionFailed, NotRegistered, VersionDropped
from kapiserver.api.group import GroupVersion, GroupVersionKind
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import Kind, Tree
from kapiserver.apiserver.caller import Caller
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.endpoints.tables import in_version
from kapiserver.apiserver.target import Target
from kapiserver.codecs.tree_decoder import decode_tree
from kapiserver.storage.objects.lifecycle import timestamp

if TYPE_CHECKING:
    from kapiserver.api.custom_kinds import Definition
    from kapiserver.apiserver.customresources.converted_objects import ConvertedObjectCache

_MANAGER_LENGTH = 128
_UNKNOWN = "unknown"


class KindSchemas(Struct, frozen=True):
    """The schemas of one kind in all its versions, and conversions between them. `version` is the
    `apiVersion` of `kind`."""

    scheme: Scheme
    kind: GroupVersionKind
    version: str
    converted: ConvertedObjectCache | None = None
    """Objects that conversion webhooks converted. If None, conversion only changes the
    apiVersion."""

    def _in(self, api_version: str) -> GroupVersionKind:
        if api_version == self.version:
            return self.kind
        try:
            version = GroupVersion.parse(api_version)
        except ValueError as error:
            raise BadObject(str(error)) from None
        if version.group != self.kind.group:
            raise NotRegistered(f"{api_version} is not a version of {self.kind}")
        return version.with_kind(self.kind.kind)

    def node(self, api_version: str) -> Node:
        """Return the kind's schema in a version. Raises NotRegistered for a version that a declared
        kind does not have, VersionDropped for one that a custom kind does not have, and
        BadObject."""
        try:
            return schema_of(self.scheme.type_of(self._in(api_version)))
        except NotRegistered:
            if self.scheme.object_info(self.kind).is_typed:
                raise
            raise VersionDropped(api_version) from None

    def convert(self, obj: Tree, api_version: str) -> Tree:
        """Return the object in another version. Raises NotRegistered, BadObject,
        FetchRequired."""
        if obj["apiVersion"] == api_version:
            return obj
        kind = self._in(api_version)
        source = self._in(obj["apiVersion"])
        webhook = self.scheme.object_info(kind).conversion_webhook
        if webhook is not None:
            return self._by_webhook(webhook, obj, kind.group_version)
        try:
            canonical = decode_tree(self.scheme.type_of(source), obj, [])
            return self.scheme.convert(canonical, kind.group_version)
        except ConversionFailed as error:
            raise NotRegistered(str(error)) from None

    def _by_webhook(self, definition: Definition, obj: Tree, version: GroupVersion) -> Tree:
        if self.converted is None:
            return {**obj, "apiVersion": str(version)}
        converted = self.converted.find(definition, obj, version)
        try:
            typed_values.check(self.node(str(version)), converted)
        except SchemaMismatch as error:
            raise NotRegistered(str(error)) from None
        return converted

    def empty(self, api_version: str) -> Tree:
        """Return an object without fields. The tree is shared; never change it."""
        kind = self._in(api_version)
        if not self.scheme.object_info(kind).is_typed:
            return {"kind": kind.kind, "apiVersion": api_version, "metadata": {}}
        type_: Any = self.scheme.type_of(kind)
        return _empty(type_, kind.kind, api_version)


@functools.lru_cache(maxsize=512)
def _empty(type_: type[Kind], kind: str, api_version: str) -> Tree:
    return decode_tree(type_, {"kind": kind, "apiVersion": api_version}, [])


def field_manager(server: Server, target: Target, *, is_new: bool = False) -> FieldManager:
    """Return the FieldManager for writes to the target, in the version of its bodies. Its methods
    may raise FetchRequired unless `is_new`: all fields of a new object belong to its creator. The
    server keeps those of built-in kinds, which never change."""
    if not target.kind_info.is_typed:
        converted = None if is_new else server.custom_resources.converted
        return _new_field_manager(server, target, converted)
    key = (target.kind_info, target.subresource)
    manager = server.field_managers.get(key)
    if manager is None:
        manager = server.field_managers[key] = _new_field_manager(server, target, None)
    return manager


def _new_field_manager(
    server: Server, target: Target, converted: ConvertedObjectCache | None
) -> FieldManager:
    kind = _kind_of(target)
    version = kind.api_version
    return FieldManager(
        schemas=KindSchemas(server.scheme, kind, version, converted),
        version=version,
        subresource=target.subresource,
        ignored=target.strategy.reset_fields,
        view_version="" if target.view is None else target.kind.api_version,
    )


def _kind_of(target: Target) -> GroupVersionKind:
    """Return the kind whose fields are managed: that of the body, or for a view that of the
    object."""
    if target.view is None:
        return target.kind
    return target.version.with_kind(target.resource.kind)


def manager_of(caller: Caller, options: Tree) -> str:
    """Return the manager of a write: `fieldManager` of the options, or the User-Agent up to its
    first slash, or `unknown` without either."""
    manager = options.get("fieldManager")
    if manager:
        return str(manager)
    name = caller.user_agent.partition("/")[0]
    if not name.isprintable():
        name = "".join(character for character in name if character.isprintable())
    return name[:_MANAGER_LENGTH] or _UNKNOWN


def track_ownership(
    server: Server,
    caller: Caller,
    target: Target,
    options: Tree,
    *,
    live: Tree | None,
    new: Tree,
) -> None:
    """Set the managedFields of `new` after this write; `live` and `new` are in the hub version.
    Raises FetchRequired."""
    field_owners = field_manager(server, target, is_new=live is None)
    before = None if live is None else _in_version(server.scheme, target, field_owners, live)
    after = _in_version(server.scheme, target, field_owners, new)
    try:
        if not target.kind_info.is_typed:  # custom objects may not fit their schema
            for tree in (before, after):
                typed_values.check(field_owners.schemas.node(field_owners.version), tree)
        entries = field_owners.update(
            before,
            after,
            manager=manager_of(caller, options),
            now=write_timestamp(server),
        )
    except SchemaMismatch:
        # Validation reports the mismatch; until then the entries stay as they are.
        entries = [] if live is None else managed_fields_of(live)
    except (BadObject, VersionDropped):
        # An entry has a malformed apiVersion, or one that the definition of a custom kind no longer
        # has. kube-apiserver drops all entries.
        entries = []
    put_entries(new, entries)


def _in_version(scheme: Scheme, target: Target, field_owners: FieldManager, obj: Tree) -> Tree:
    """Return an object in the version whose fields are managed."""
    if obj["apiVersion"] == field_owners.version:
        return obj
    return in_version(scheme, obj, _kind_of(target).group_version)


def put_entries(obj: Tree, entries: list[Tree]) -> None:
    """Replace the managedFields of an object."""
    metadata = metadata_of(obj)
    metadata.pop("managedFields", None)
    if entries:
        metadata["managedFields"] = entries  # the last field of metadata


def write_timestamp(server: Server) -> str:
    """Return the current time as the timestamp of a managedFields entry."""
    return timestamp(server.clock.now())
