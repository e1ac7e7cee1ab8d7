"""Decodes a JSON-shaped value into the tree of a custom kind.

Prunes the fields that the schema does not have and reports them, decodes the metadata of the object
and of embedded objects as ObjectMeta, and leaves everything else unchanged. Knows no bytes and no
kind by name. Mirrors the schema coercion of k8s.io/apiextensions-apiserver.
"""

from __future__ import annotations

from kapiserver.api.apiextensions.schema.pruning import prune
from kapiserver.api.apiextensions.schema.structural import Structural, has_embedded_resources
from kapiserver.api.custom_kinds import CustomKind
from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.types import Tree, Value
from kapiserver.codecs.errors import WrongValue
from kapiserver.codecs.limits import MAX_STRICT_ERRORS
from kapiserver.codecs.struct_decoder import in_key_order, struct_decoder


def decode_custom_object(type_: type[CustomKind], value: Value, unknown: list[str]) -> Tree:
    """Decode a value in place and return it; append the paths of pruned fields to `unknown`.

    Raises WrongValue.
    """
    if not isinstance(value, dict):
        raise WrongValue(
            "json: cannot unmarshal the value into Go value of type unstructured.Unstructured"
        )
    version = type_.version
    metadata = _decode_metadata(value.get("metadata"), "metadata", unknown)
    pruned: list[str] = []
    if not version.preserves_unknown_fields:
        prune(value, version.structural, pruned)
    unknown.extend(sorted(pruned)[: MAX_STRICT_ERRORS - len(unknown)])
    _decode_embedded_objects(value, version.structural, "", unknown)
    value["apiVersion"], value["kind"] = value.get("apiVersion") or "", value.get("kind") or ""
    value["metadata"] = metadata
    return value


def _decode_metadata(metadata: Value, path: str, unknown: list[str]) -> Tree:
    """Decode metadata on their own, as Go does: paths in errors begin there, and keys are sorted.
    Appends the paths of unknown fields from the root. Raises WrongValue."""
    paths: list[str] = []
    try:
        tree: Tree = struct_decoder(ObjectMeta)({} if metadata is None else metadata, None, paths)
    except WrongValue as error:
        from kapiserver.codecs.first_error import first_error  # hardly any object needs it

        raise first_error(ObjectMeta, metadata, order=sorted) or error from None
    if paths:
        unknown.extend(f"{path}.{name}" for name in in_key_order(paths))
    return tree


def valid_metadata_fields(metadata: Value) -> Tree:
    """Return the fields of metadata that are valid for ObjectMeta."""
    if not isinstance(metadata, dict):
        return {}
    return {name: value for name, value in metadata.items() if _is_valid_metadata({name: value})}


def _is_valid_metadata(metadata: Tree) -> bool:
    try:
        struct_decoder(ObjectMeta)(metadata, None, [])
    except WrongValue:
        return False
    return True


def _decode_embedded_objects(value: Value, node: Structural, path: str, unknown: list[str]) -> None:
    """Decode the metadata of the objects embedded in a value, in place."""
    if not has_embedded_resources(node):
        return
    if isinstance(value, list) and node.items is not None:
        for index, item in enumerate(value):
            _decode_embedded_object(item, node.items, f"{path}[{index}]", unknown)
    if isinstance(value, dict):
        for name, item in value.items():
            child = node.field(name)
            if child is not None:
                _decode_embedded_object(item, child, f"{path}.{name}", unknown)


def _decode_embedded_object(value: Value, node: Structural, path: str, unknown: list[str]) -> None:
    if node.embedded and isinstance(value, dict):
        for name in ("apiVersion", "kind"):
            if name in value and not isinstance(value[name], str):
                raise WrongValue(f"{path.removeprefix('.')}.{name}: must be a string")
        if "metadata" in value:
            value["metadata"] = _decode_metadata(
                value["metadata"], f"{path.removeprefix('.')}.metadata", unknown
            )
    _decode_embedded_objects(value, node, path, unknown)
