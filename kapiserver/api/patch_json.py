"""JSON patch (RFC 6902) on trees, within bounds.

The operations themselves are the library's; here are the shape, the bounds and the words of
kube-apiserver. Knows no type: what comes out is checked by whoever decodes it.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import orjson

from kapiserver.api.errors import BadObject, PatchFailed, PatchTooLong
from kapiserver.api.types import Tree, Value
from kapiserver.api.wording import json_type

MAX_OPERATIONS = 10_000
MAX_COPIED_BYTES = 3 * 1024 * 1024
"""Bytes of JSON that the `copy` operations of one patch may add."""

_MEMBERS = {"op": str, "path": str, "from": str, "value": object}


def read(patch: Value) -> list[Tree]:
    """Check that a decoded body is a list of operations. Raises BadObject, PatchTooLong."""
    if patch is None:
        return []
    if not isinstance(patch, list):
        raise _wrong(patch, "Go value of type []handlers.jsonPatchOp")
    for operation in patch:
        if not isinstance(operation, dict):
            raise _wrong(operation, "Go value of type handlers.jsonPatchOp")
        for name, value in operation.items():
            if not isinstance(value, _MEMBERS.get(name, object)):
                raise _wrong(value, f"Go struct field jsonPatchOp.{name} of type string")
    if len(patch) > MAX_OPERATIONS:
        raise PatchTooLong(
            f"Request entity too large: The allowed maximum operations in a JSON patch is "
            f"{MAX_OPERATIONS}, got {len(patch)}"
        )
    return patch


def unknown_fields(operations: Sequence[Tree]) -> list[str]:
    """Strict errors: members of operations that RFC 6902 does not name."""
    return [
        f'unknown field "[{index}].{name}"'
        for index, operation in enumerate(operations)
        for name in operation
        if name not in _MEMBERS
    ]


def apply(target: Value, operations: Sequence[Tree]) -> Value:
    """The target after all operations; neither argument is changed. Raises PatchFailed."""
    import jsonpatch  # only who patches pays for it

    wrong = (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException)
    patched, copied = copy.deepcopy(target), 0
    for operation in operations:
        if _tests_absence(operation) and _found(patched, operation["path"]) is None:
            continue
        try:
            copied += _size_of_copy(patched, operation)
            if copied > MAX_COPIED_BYTES:
                raise PatchFailed(
                    "Unable to complete the copy, the accumulated size increase of copy is "
                    f"{copied}, exceeding the limit {MAX_COPIED_BYTES}"
                )
            patched = jsonpatch.JsonPatch([operation]).apply(patched, in_place=True)
        except wrong as error:
            raise PatchFailed(str(error)) from None
        except (TypeError, ValueError, LookupError, RecursionError) as error:
            # The library's answer to a pointer through a scalar differs by version.
            raise PatchFailed(f"{type(error).__name__}: {error}") from None
    return patched


def _tests_absence(operation: Tree) -> bool:
    # Testing a missing member for null succeeds, as with kube-apiserver's library.
    return operation.get("op") == "test" and operation.get("value") is None and "path" in operation


def _size_of_copy(tree: Value, operation: Tree) -> int:
    if operation.get("op") != "copy":
        return 0
    return len(orjson.dumps(_found(tree, operation.get("from", ""))))


def _found(tree: Value, pointer: str) -> Value:
    """The value a pointer leads to; None where there is none."""
    import jsonpointer  # comes with jsonpatch

    try:
        return jsonpointer.resolve_pointer(tree, pointer, None)
    except (jsonpointer.JsonPointerException, TypeError):
        return None


def _wrong(value: Value, into: str) -> BadObject:
    return BadObject(f"error decoding patch: json: cannot unmarshal {json_type(value)} into {into}")
