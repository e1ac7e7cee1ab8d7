"""Server-side apply of an object, its status or its scale.

Mirrors applyPatcher of k8s.io/apiserver/pkg/endpoints/handlers/patch.go.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Sequence
from functools import partial

from msgspec import Struct

from kapiserver.api.accessors import annotations_of, uid_of
from kapiserver.api.apply import last_applied, typed_values
from kapiserver.api.apply.fieldsets import Fields, difference
from kapiserver.api.apply.managed_fields import (
    FieldManager,
    conflict_error,
    kind_description,
    object_description,
)
from kapiserver.api.apply.managed_fields_entries import Manager, managed_fields_of
from kapiserver.api.apply.merge_schema import schema_of
from kapiserver.api.errors import BadObject, FieldConflicts
from kapiserver.api.go_format import json_type, quote
from kapiserver.api.group import GroupVersion
from kapiserver.api.meta.v1 import ManagedFieldsEntry
from kapiserver.api.types import Tree, Value
from kapiserver.apiserver.caller import Caller, Warnings
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.endpoints.decode import (
    FieldValidation,
    check_name,
    check_namespace,
    field_validation,
    to_hub,
)
from kapiserver.apiserver.endpoints.field_managers import (
    field_manager,
    put_entries,
    write_timestamp,
)
from kapiserver.apiserver.endpoints.operations.guaranteed_update import (
    guaranteed_update,
    names_version,
)
from kapiserver.apiserver.endpoints.tables import in_version
from kapiserver.apiserver.errors import BadRequest
from kapiserver.apiserver.target import Target
from kapiserver.codecs import cbor, json, yaml
from kapiserver.codecs.errors import CodecError
from kapiserver.codecs.limits import MAX_VALUES
from kapiserver.codecs.tree_decoder import decode_tree
from kapiserver.storage.cache.query import Write, WriteResult
from kapiserver.storage.errors import ObjectConflict
from kapiserver.storage.objects.lifecycle import is_version


class Configuration(Struct, frozen=True):
    """A configuration as the client sent it. `duplicates` are lines about its repeated keys."""

    tree: Tree
    duplicates: Sequence[str] = ()


def _read_yaml(data: bytes) -> Configuration:
    """Read YAML; JSON without repeated keys is decoded by the JSON decoder, which is many times
    faster. Raises CodecError."""
    if _is_like_json(data) and not has_long_key(data):
        try:
            json.check_value_count(data, MAX_VALUES)
            value, repeated = json.decode_document(data)
        except CodecError:
            pass
        else:
            if not repeated:
                return _configuration(value)
    document = yaml.decode_first_document(data)
    return _configuration(document.value, document.duplicates)


_MAX_KEY = 1024
_LONG_KEY = re.compile(rb'"(?:[^"\\]|\\.){1023,}+"\s*:')


def has_long_key(data: bytes) -> bool:
    """Whether a body in JSON has a key of more than 1,024 characters, quotes included. That is no
    key in YAML, which kube-apiserver reads bodies as."""
    return len(data) > _MAX_KEY and _LONG_KEY.search(data) is not None


def _is_like_json(data: bytes) -> bool:
    return data.lstrip()[:1] == b"{"


def _read_cbor(data: bytes) -> Configuration:
    return _configuration(cbor.decode_value(data))


def _configuration(value: Value, duplicates: Sequence[str] = ()) -> Configuration:
    if value is None:
        value = {}
    if not isinstance(value, dict):
        raise BadRequest(
            "error decoding patch: error unmarshaling JSON: while decoding JSON: json: cannot "
            f"unmarshal {json_type(value)} into Go value of type map[string]interface {{}}"
        )
    return Configuration(tree=value, duplicates=duplicates)


_CBOR = "application/apply-patch+cbor"
APPLY_TYPES: dict[str, Callable[[bytes], Configuration]] = {
    "application/apply-patch+yaml": _read_yaml,
    _CBOR: _read_cbor,
}
"""The functions that read a body, by media type."""


async def apply_configuration(
    server: Server,
    target: Target,
    caller: Caller,
    options: Tree,
    content: Configuration,
    *,
    cost: int = 0,
) -> WriteResult:
    """Apply the configuration; create the object if it does not exist. `cost` is that of processing
    the configuration (`codecs/cost.py`)."""
    config = content.tree
    _check_kind(server, target, config)
    _check_managers(config)
    manager = options["fieldManager"]
    fields = field_manager(server, target)
    now = write_timestamp(server)
    check_duplicates = partial(
        _check_duplicates, content.duplicates, field_validation(options), caller.warnings
    )

    def change(current: Tree | None) -> Tree:
        live = None if current is None else in_version(server.scheme, current, target.version)
        configuration = (
            config if target.view is None else target.view.configuration(live or {}, config)
        )
        if live is not None and not target.kind_info.is_typed:
            _check_live(fields, live, configuration)
        merged, entries = _merge(
            fields, live, configuration, manager, now, options.get("force") is True
        )
        is_kubectl = target.view is None and manager == last_applied.MANAGER
        if is_kubectl and last_applied.ANNOTATION in annotations_of(merged):
            annotated = copy.deepcopy(merged)
            last_applied.update_annotation(annotated, configuration)
            merged = merged if annotated == merged else annotated
        if current is not None and merged is live and entries == managed_fields_of(live):
            check_duplicates()
            return current
        tree = _typed_tree(server, target, configuration, merged)
        check_duplicates()
        if live is None:
            _check_new(target, configuration)
        return _to_hub(server, target, tree, entries)

    write = Write(may_create=not target.subresource, conditional=names_version(config), cost=cost)
    return await guaranteed_update(server, target, caller, options, change, write)


def read_configuration(media: str, data: bytes) -> Configuration:
    """Read the body of an apply request. Raises BadRequest."""
    try:
        return APPLY_TYPES[media](data)
    except CodecError as error:
        raise BadRequest(f"{_undecodable(media, data)}: {error}") from None


def _undecodable(media: str, data: bytes) -> str:
    # kube-apiserver converts YAML for the audit event first, unless it looks like JSON.
    if media == _CBOR:
        return "error decoding patch"
    if _is_like_json(data):
        return "error decoding patch: error converting YAML to JSON"
    return "error encoding patch"


def _check_managers(config: Tree) -> None:
    """Raise BadObject if the configuration has managedFields. Those that cannot be decoded do not
    count, because Go reads them as nil; they are refused later, as fields of the object."""
    entries = (config.get("metadata") or {}).get("managedFields")
    if not isinstance(entries, list):
        return
    try:
        for entry in entries:
            decode_tree(ManagedFieldsEntry, entry, [])
    except CodecError:
        return
    raise BadObject("metadata.managedFields must be nil")


def _check_kind(server: Server, target: Target, config: Tree) -> None:
    """Raise BadRequest or BadObject unless the configuration is of the target's kind."""
    names = [config.get(name) for name in ("apiVersion", "kind")]
    version_text, kind_text = (name if isinstance(name, str) else "" for name in names)
    metadata = config.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        raise BadRequest("metadata is not an object")
    try:
        kind = GroupVersion.parse(version_text).with_kind(kind_text)
    except ValueError as error:
        raise BadRequest(str(error)) from None
    if kind != target.kind:
        raise BadRequest(f"invalid object type: {kind}")
    if target.view is not None:
        node = schema_of(server.scheme.type_of(target.kind))
        try:
            typed_values.check(node, config)
        except typed_values.SchemaMismatch as error:
            raise BadObject(f"failed to create typed patch object: {error}") from None


def _check_live(fields: FieldManager, live: Tree, config: Tree) -> None:
    """Raise BadObject unless the stored object fits its schema, which may have changed since the
    last write. An error in the configuration is reported first."""
    try:
        typed_values.check(fields.schemas.node(fields.version), live)
    except typed_values.SchemaMismatch as error:
        fields.field_set(config)
        raise BadObject(
            f"failed to create typed live object ({object_description(live)}): {error}"
        ) from None


def _merge(
    fields: FieldManager, live: Tree | None, config: Tree, manager: str, now: str, force: bool
) -> tuple[Tree, list[Tree]]:
    """Return the merged object and its managedFields. Raises FieldConflicts, BadObject."""
    try:
        return fields.apply(live, config, manager=manager, now=now, force=force)
    except FieldConflicts as error:
        if manager != last_applied.MANAGER or live is None:
            raise
        node = fields.schemas.node(fields.version)
        remaining = _conflicts_without(error, last_applied.unchanged_fields(node, live))
        if remaining:
            raise conflict_error(remaining) from None
    return fields.apply(live, config, manager=manager, now=now, force=True)


def _conflicts_without(error: FieldConflicts, allowed: Fields) -> dict[Manager, Fields]:
    remaining = {
        manager: difference(fields, allowed) for manager, fields in error.conflicts.items()
    }
    return {manager: fields for manager, fields in remaining.items() if fields}


def _typed_tree(server: Server, target: Target, config: Tree, merged: Tree) -> Tree:
    """Return the merged object in the version of the request. Raises BadRequest."""
    kind = target.version.with_kind(target.resource.kind)
    try:
        return decode_tree(server.scheme.type_of(kind), merged, [])
    except CodecError as error:
        raise _not_typed(config, str(error)) from None


def _check_duplicates(
    duplicates: Sequence[str], validation: FieldValidation, warnings: Warnings
) -> None:
    """Warn of repeated keys. kube-apiserver looks at them when it has applied the configuration.
    Raises BadRequest."""
    if duplicates and validation == "Strict":
        lines = "\n".join(duplicates)
        raise BadRequest(
            "error strict decoding patch: error converting YAML to JSON: yaml: unmarshal errors:\n"
            f"{lines}"
        )
    if validation == "Warn":
        for line in duplicates:
            warnings.add(line.strip())


def _to_hub(server: Server, target: Target, tree: Tree, entries: list[Tree]) -> Tree:
    """Return the merged object in the hub version, with defaults and managedFields set. Raises
    BadRequest."""
    obj = to_hub(server.scheme, target, tree)
    check_namespace(target, obj)
    check_name(target, obj)
    put_entries(obj, entries)
    return obj


_STRUCT_FIELD = re.compile(r"Go struct field \S+(?= of type)")
"""What the decoder of unstructured objects leaves out of Go's message."""


def _not_typed(config: Tree, problem: str) -> BadRequest:
    """Return the error for a configuration whose values, such as times, cannot be decoded."""
    if problem.startswith("illegal base64"):
        problem = f"error decoding from json: {problem}"
    problem = _STRUCT_FIELD.sub("Go value", problem)
    return BadRequest(
        f"failed to convert new object ({object_description(config)}) to proper version: "
        f"unable to convert unstructured object to {kind_description(config)}: {problem}"
    )


def _check_new(target: Target, config: Tree) -> None:
    """Check what a configuration says of the stored object, while there is none. Raises
    ObjectConflict, BadRequest."""
    version = (config.get("metadata") or {}).get("resourceVersion") or ""
    if uid_of(config):
        raise _uid_mismatch(target, uid_of(config))
    if version and not is_version(version):
        raise BadRequest(f"strconv.ParseUint: parsing {quote(version)}: invalid syntax")


def _uid_mismatch(target: Target, uid: str) -> ObjectConflict:
    return ObjectConflict(
        f"uid mismatch: the provided object specified uid {uid}, and no existing object was found",
        resource=target.resource.name,
        group=target.resource.group,
        name=target.key.name,
    )
