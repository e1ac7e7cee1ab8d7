"""JSON patch (RFC 6902) on trees, within bounds.

The operations themselves are the library's; here are the shape, the bounds and the words of
kube-apiserver. Knows no type: what comes out is checked by whoever decodes it.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import orjson

from kapiserver.api.errors import BadObject, PatchFailed, PatchTooLong
from kapiserver.api.go_format import json_type
from kapiserver.api.types import Tree, Value

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
        try:
            asked = _in_terms_of_the_library(patched, operation)
            if asked is None:
                continue
            copied += _size_of_copy(patched, asked)
            if copied > MAX_COPIED_BYTES:
                raise PatchFailed(
                    "Unable to complete the copy, the accumulated size increase of copy is "
                    f"{copied}, exceeding the limit {MAX_COPIED_BYTES}"
                )
            patched = jsonpatch.JsonPatch([asked]).apply(patched, in_place=True)
        except wrong as error:
            raise PatchFailed(str(error)) from None
        except (TypeError, ValueError, LookupError, RecursionError) as error:
            # The library's answer to a pointer through a scalar differs by version.
            raise PatchFailed(f"{type(error).__name__}: {error}") from None
    return patched


def _in_terms_of_the_library(tree: Value, operation: Tree) -> Tree | None:
    """The operation as the library does what kube-apiserver's does; None: there is nothing to do.

    Negative indices count from the end, a value left out is null, a member that is not there is
    null for all but `remove` and `move`, and only `replace` and `test` take the whole document.
    """
    asked, kind = dict(operation), operation.get("op")
    for name in ("path", "from"):
        pointer = asked.get(name)
        if pointer:
            behind = name == "path" and kind in ("add", "copy", "move")
            asked[name] = _counted(tree, pointer, behind=behind)
        elif pointer == "" and kind not in ("replace", "test"):
            raise PatchFailed(f"{kind} operation does not apply: doc is missing {name}")
    if kind in ("add", "replace", "test"):
        asked.setdefault("value", None)
    if kind == "replace" and _is_missing_member(tree, asked.get("path", "")):
        asked["op"] = "add"
    if kind == "copy" and _is_missing_member(tree, asked.get("from", "")):
        return {"op": "add", "path": asked.get("path", ""), "value": None}
    if kind == "test" and _is_missing_member(tree, asked.get("path", "")):
        return asked if asked["value"] is not None else None
    return asked


def _counted(tree: Value, pointer: str, *, behind: bool) -> str:
    """The pointer with negative indices made positive; the last counts from `behind` the list's
    end, where an item may be added."""
    if "/-" not in pointer:
        return pointer
    parts = pointer.split("/")
    for place in range(1, len(parts)):
        above = _found(tree, "/".join(parts[:place]))
        if isinstance(above, list) and parts[place].removeprefix("-").isdigit():
            size = len(above) + (behind and place == len(parts) - 1)
            index = int(parts[place])
            parts[place] = str(index + size if index < 0 else index)
    return "/".join(parts)


def _is_missing_member(tree: Value, pointer: str) -> bool:
    """Whether the pointer leads to a member that an object does not have."""
    import jsonpointer  # comes with jsonpatch

    parts = jsonpointer.JsonPointer(pointer).parts
    above = jsonpointer.JsonPointer.from_parts(parts[:-1]).resolve(tree, None) if parts else None
    return isinstance(above, dict) and parts[-1] not in above


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
