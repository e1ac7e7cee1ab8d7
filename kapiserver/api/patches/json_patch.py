"""JSON patch (RFC 6902) on trees, within limits.

Gives kube-apiserver's results where it is more lenient than the RFC: negative indices count from
the end, an omitted value is null, `replace` may add a member, and a missing member is null for
`copy` and `test`. The messages are those of its library. Knows no type: the caller decodes and
checks the result. Mirrors github.com/evanphx/json-patch, version 4.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, Sequence

import orjson

from kapiserver.api.errors import BadObject, PatchFailed, PatchTestFailed, PatchTooLong
from kapiserver.api.go_format import json_type, quote
from kapiserver.api.types import Tree, Value

MAX_OPERATIONS = 10_000
MAX_COPIED_BYTES = 3 * 1024 * 1024
"""The limit for JSON that the `copy` operations of one patch may add, in bytes."""
MAX_DEPTH = 250
"""The maximum nesting of the result; a body cannot nest its values more deeply."""
_TOO_DEEP = "exceeded max depth"

_MEMBERS = {"op": str, "path": str, "from": str, "value": object}
_MISSING = "missing value"
_INDEX = re.compile("[+-]?[0-9]+")
_MAX_DIGITS = 18


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


def copies(operations: Sequence[Tree]) -> bool:
    """Whether operations copy values, so that the result may be much larger than the target and the
    patch."""
    return any(operation.get("op") == "copy" for operation in operations)


def apply(target: Value, operations: Sequence[Tree]) -> Value:
    """Return the target after all operations; the arguments do not change. Raises PatchFailed,
    and PatchTestFailed if a `test` finds another value."""
    document = _Document(copy.deepcopy(target))
    try:
        for operation in operations:
            kind = operation.get("op", "unknown")
            step = _STEPS.get(kind)
            if step is None:
                raise PatchFailed(f"Unexpected kind: {kind}")
            step(document, operation)
    except RecursionError:
        raise PatchFailed(_TOO_DEEP) from None
    if _is_too_deep(document.root):
        raise PatchFailed(_TOO_DEEP)
    return document.root


class _Document:
    """A document that operations change in place."""

    def __init__(self, root: Value) -> None:
        self.root = root
        self._copied = 0

    def add(self, operation: Tree) -> None:
        """Add a member, or insert an item."""
        path = _member(operation, "path", "add operation failed to decode path")
        container, key = self._find(
            path, f'add operation does not apply: doc is missing path: "{path}"'
        )
        value = copy.deepcopy(operation.get("value"))
        _add(container, key, value, f"error in add for path: '{path}'")

    def remove(self, operation: Tree) -> None:
        """Remove a member or an item."""
        path = _member(operation, "path", "remove operation failed to decode path")
        container, key = self._find(
            path, f'remove operation does not apply: doc is missing path: "{path}"'
        )
        _remove(container, key, f"error in remove for path: '{path}'")

    def replace(self, operation: Tree) -> None:
        """Set a member, replace an item or the whole document."""
        path = _member(operation, "path", "replace operation failed to decode path", "operation ")
        value = copy.deepcopy(operation.get("value"))
        if not path:
            if not isinstance(value, dict | list):
                raise PatchFailed("replace operation value must be object or array")
            self.root = value
            return
        start = "replace operation does not apply: doc is missing"
        container, key = self._find(path, f"{start} path: {path}")
        if isinstance(container, dict):
            container[key] = value
            return
        try:
            container[_index(container, key)] = value
        except ValueError:
            raise PatchFailed(f"{start} key: {path}: {_MISSING}") from None

    def move(self, operation: Tree) -> None:
        """Remove a value and add it at another place."""
        source = _member(operation, "from", "move operation failed to decode from", "operation, ")
        start = "move operation does not apply: doc is missing"
        container, key = self._find(source, f"{start} from path: {source}")
        value = _remove(container, key, f"error in move for path: '{key}'")
        path = _member(operation, "path", "move operation failed to decode path", "operation ")
        container, key = self._find(path, f"{start} destination path: {path}")
        _add(container, key, value, f"error in move for path: '{path}'")

    def copy(self, operation: Tree) -> None:
        """Add a copy of a value at another place."""
        source = _member(operation, "from", "copy operation failed to decode from", "operation, ")
        start = "copy operation does not apply: doc is missing"
        container, key = self._find(source, f"{start} from path: {source}")
        value = _get(container, key, f"error in copy for from: '{source}'")
        path = _member(operation, "path", "copy operation failed to decode path")
        container, key = self._find(path, f"{start} destination path: {path}")
        self._copied += _size(value)
        if self._copied > MAX_COPIED_BYTES:
            raise PatchFailed(
                "Unable to complete the copy, the accumulated size increase of copy is "
                f"{self._copied}, exceeding the limit {MAX_COPIED_BYTES}"
            )
        _add(container, key, copy.deepcopy(value), "error while adding value during copy")

    def test(self, operation: Tree) -> None:
        """Check that a value equals another."""
        path = _member(operation, "path", "test operation failed to decode path", "operation ")
        value = self.root
        if path:
            container, key = self._find(
                path, f"test operation does not apply: is missing path: {path}"
            )
            value = _get(container, key, f"error in test for path: '{path}'")
        if not _equal(value, operation.get("value")):
            raise PatchTestFailed(f"testing value {path} failed: test failed")

    def _find(self, path: str, problem: str) -> tuple[Tree | list[Value], str]:
        """Return the object or list that has the value at a path, and the key of the value there.
        Raises PatchFailed with the problem if there is no such object or list."""
        _, *parts = map(_unescape, path.split("/"))
        container: Value = self.root if parts else None
        for part in parts[:-1]:
            try:
                container = _get(container, part, "")
            except PatchFailed:
                container = None
        if not isinstance(container, dict | list):
            raise PatchFailed(f"{problem}: {_MISSING}")
        return container, parts[-1]


_STEPS: Mapping[str, Callable[[_Document, Tree], None]] = {
    "add": _Document.add,
    "copy": _Document.copy,
    "move": _Document.move,
    "remove": _Document.remove,
    "replace": _Document.replace,
    "test": _Document.test,
}


def _member(operation: Tree, name: str, problem: str, reason: str = "") -> str:
    """Return the `path` or `from` of an operation. Raises PatchFailed without one; a `reason` is
    the start of a more exact message."""
    if name not in operation:
        reason = f"{reason}missing {name} field: " if reason else ""
        raise PatchFailed(f"{problem}: {reason}{_MISSING}")
    text: str = operation[name]
    return text


def _get(container: Value, key: str, problem: str) -> Value:
    """Return a member, null for a missing one, or an item. Raises PatchFailed."""
    if isinstance(container, dict):
        return container.get(key)
    if not isinstance(container, list):
        return None
    try:
        return container[_index(container, key)]
    except ValueError as error:
        raise PatchFailed(f"{problem}: {error}") from None


def _add(container: Tree | list[Value], key: str, value: Value, problem: str) -> None:
    if isinstance(container, dict):
        container[key] = value
    elif key == "-":
        container.append(value)
    else:
        try:
            container.insert(_index(container, key, is_new=True), value)
        except ValueError as error:
            raise PatchFailed(f"{problem}: {error}") from None


def _remove(container: Tree | list[Value], key: str, problem: str) -> Value:
    """Remove a member or an item and return it."""
    if isinstance(container, dict):
        if key not in container:
            reason = f"Unable to remove nonexistent key: {key}: {_MISSING}"
            raise PatchFailed(f"{problem}: {reason}")
        return container.pop(key)
    try:
        return container.pop(_index(container, key))
    except ValueError as error:
        raise PatchFailed(f"{problem}: {error}") from None


def _index(items: list[Value], key: str, *, is_new: bool = False) -> int:
    """Return the index of an item, or of a new one. Raises ValueError."""
    if not _INDEX.fullmatch(key) or len(key) > _MAX_DIGITS:
        reason = f"strconv.Atoi: parsing {quote(key)}: invalid syntax"
        raise ValueError(
            f"value was not a proper array index: '{key}': {reason}" if is_new else reason
        )
    size, index = len(items) + is_new, int(key)
    if not -size <= index < size:
        raise ValueError(f"Unable to access invalid index: {index}: invalid index referenced")
    return index + size if index < 0 else index


def _is_too_deep(value: Value) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        items = (
            container.values() if isinstance(container, dict) else container for container in level
        )
        level = [item for children in items for item in children if isinstance(item, dict | list)]
        if not level:
            return False
    return True


def _size(value: Value) -> int:
    """Return the length of a value as JSON. Raises PatchFailed."""
    try:
        return len(orjson.dumps(value))
    except TypeError as error:  # nested too deeply
        raise PatchFailed(f"error while performing deep copy: {error}") from None


def _equal(left: Value, right: Value) -> bool:
    """Compare JSON values; true is not 1, and 1 is not 1.0."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(
            _equal(value, right[name]) for name, value in left.items()
        )
    if isinstance(left, list):
        return len(left) == len(right) and all(map(_equal, left, right))
    return bool(left == right)


def _unescape(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~")


def _decode_error(value: Value, into: str) -> BadObject:
    return BadObject(f"error decoding patch: json: cannot unmarshal {json_type(value)} into {into}")
