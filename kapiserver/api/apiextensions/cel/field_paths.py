"""The fieldPath of CEL rules: `.spec['a.b'].c`.

Mirrors ValidFieldPath of k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel.
"""

from __future__ import annotations

import re

from kapiserver.api.apiextensions.schema.structural import Structural
from kapiserver.api.errors import Path

_STEP = re.compile(r"\.([^.\[\]']+)|\['((?:[^'\\]|\\.)*)'\]")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'",
    "\\": "\\",
}  # fmt: skip


class InvalidFieldPath(ValueError):
    """A text is not the path of a field in the schema."""


def field_path(text: str, node: Structural) -> Path:
    """Return the path as messages show it. Raises InvalidFieldPath."""
    path, position = Path(), 0
    current: Structural | None = node
    while position < len(text):
        step = _STEP.match(text, position)
        if step is None or current is None:
            raise InvalidFieldPath(text)
        position = step.end()
        name = step[1] if step[1] is not None else _unescaped(step[2])
        child = current.properties.get(name)
        if current.properties:
            path = path / name
        elif current.values is not None:
            path, child = path[name], current.values
        if child is None:
            raise InvalidFieldPath(text)
        current = child
    return path


def _unescaped(text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        if match[1] not in _ESCAPES:
            raise InvalidFieldPath(match[0])
        return _ESCAPES[match[1]]

    return _ESCAPE.sub(plain, text)
