"""JSON patch (RFC 6902) on trees, within limits.

The jsonpatch library applies the operations; this module checks their form, enforces limits and
gives kube-apiserver's messages. Knows no type: the caller decodes and checks the result.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import orjson

from kapiserver.api.errors import BadObject, PatchFailed, PatchTestFailed, PatchTooLong
from kapiserver.api.go_format import json_type, quote
from kapiserver.api.types import Tree, Value

MAX_OPERATIONS = 10_000
MAX_COPIED_BYTES = 3 * 1024 * 1024
"""The limit for JSON that the `copy` operations of one patch may add, in bytes."""

_MEMBERS = {"op": str, "path": str, "from": str, "value": object}


def read(patch: Value) -> list[Tree]:
    """Check that a decoded body is a list of operations. Raises BadObject and PatchTooLong."""
    if patch is None:
        return []
    if not isinstance(patch, list):
        raise _decode_error(patch, "Go value of type []handlers.jsonPatchOp")
    for operation in patch:
        if not isinstance(operation, dict):
            raise _decode_error(operation, "Go value of type handlers.jsonPatchOp")
        for name, value in operation.items():
            if not isinstance(value, _MEMBERS.get(name, object)):
                raise _decode_error(value, f"Go struct field jsonPatchOp.{name} of type string")
    if len(patch) > MAX_OPERATIONS:
        raise PatchTooLong(
            f"Request entity too large: The allowed maximum operations in a JSON patch is "
            f"{MAX_OPERATIONS}, got {len(patch)}"
        )
    return patch


def unknown_fields(operations: Sequence[Tree]) -> list[str]:
    """Return strict decoding errors for members that RFC 6902 does not define."""
    return [
        f"unknown field {quote(f'[{index}].{name}')}"
        for index, operation in enumerate(operations)
        for name in operation
        if name not in _MEMBERS
    ]


def apply(target: Value, operations: Sequence[Tree]) -> Value:
    """Return the target after all operations; the arguments do not change. Raises PatchFailed,
    and PatchTestFailed if a `test` finds another value."""
    import jsonpatch  # loaded on first use

    library_errors = (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException)
    patched, copied = copy.deepcopy(target), 0
    for operation in operations:
        try:
            adapted = _adapt(patched, operation)
            if adapted is None:
                continue
            copied += _size_of_copy(patched, adapted)
            if copied > MAX_COPIED_BYTES:
                raise PatchFailed(
                    "Unable to complete the copy, the accumulated size increase of copy is "
                    f"{copied}, exceeding the limit {MAX_COPIED_BYTES}"
                )
            patched = jsonpatch.JsonPatch([adapted]).apply(patched, in_place=True)
        except jsonpatch.JsonPatchTestFailed as error:
            raise PatchTestFailed(str(error)) from None
        except library_errors as error:
            raise PatchFailed(str(error)) from None
        except (TypeError, ValueError, LookupError, RecursionError) as error:
            # The library's error for a pointer through a scalar depends on its version.
            raise PatchFailed(f"{type(error).__name__}: {error}") from None
    return patched


def _adapt(tree: Value, operation: Tree) -> Tree | None:
    """Adapt an operation to the library, so that it has kube-apiserver's result; None for a no-op.

    Negative indices count from the end, an omitted value is null, a missing member is null for all
    operations but `remove` and `move`, and only `replace` and `test` accept the whole document.
    """
    adapted, kind = dict(operation), operation.get("op")
    for name in ("path", "from"):
        pointer = adapted.get(name)
        if pointer:
            allow_end = name == "path" and kind in ("add", "copy", "move")
            adapted[name] = _resolve_negative_indices(tree, pointer, allow_end=allow_end)
        elif pointer == "" and kind not in ("replace", "test"):
            raise PatchFailed(f"{kind} operation does not apply: doc is missing {name}")
    if kind in ("add", "replace", "test"):
        adapted.setdefault("value", None)
    if kind == "replace" and _is_missing_member(tree, adapted.get("path", "")):
        adapted["op"] = "add"
    if kind == "copy" and _is_missing_member(tree, adapted.get("from", "")):
        return {"op": "add", "path": adapted.get("path", ""), "value": None}
    if kind == "test" and _is_missing_member(tree, adapted.get("path", "")):
        return adapted if adapted["value"] is not None else None
    return adapted


def _resolve_negative_indices(tree: Value, pointer: str, *, allow_end: bool) -> str:
    """Make the negative indices of a pointer positive.

    With `allow_end`, the last index counts from the position after the end, where items are added.
    """
    if "/-" not in pointer:
        return pointer
    parts = pointer.split("/")
    for depth in range(1, len(parts)):
        parent = _resolve(tree, "/".join(parts[:depth]))
        if isinstance(parent, list) and parts[depth].removeprefix("-").isdigit():
            size = len(parent) + (allow_end and depth == len(parts) - 1)
            index = int(parts[depth])
            parts[depth] = str(index + size if index < 0 else index)
    return "/".join(parts)


def _is_missing_member(tree: Value, pointer: str) -> bool:
    """Report whether the pointer refers to a missing member of an existing object."""
    import jsonpointer  # comes with jsonpatch

    parts = jsonpointer.JsonPointer(pointer).parts
    parent = jsonpointer.JsonPointer.from_parts(parts[:-1]).resolve(tree, None) if parts else None
    return isinstance(parent, dict) and parts[-1] not in parent


def _size_of_copy(tree: Value, operation: Tree) -> int:
    if operation.get("op") != "copy":
        return 0
    return len(orjson.dumps(_resolve(tree, operation.get("from", ""))))


def _resolve(tree: Value, pointer: str) -> Value:
    """Return the value at a pointer, or None."""
    import jsonpointer  # comes with jsonpatch

    try:
        return jsonpointer.resolve_pointer(tree, pointer, None)
    except (jsonpointer.JsonPointerException, TypeError):
        return None


def _decode_error(value: Value, into: str) -> BadObject:
    return BadObject(f"error decoding patch: json: cannot unmarshal {json_type(value)} into {into}")
