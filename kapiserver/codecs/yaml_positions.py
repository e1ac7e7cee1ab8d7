"""Finds the lines and columns of values in the text of a YAML document."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, TypeAlias

from msgspec import Struct

from kapiserver.codecs.yaml import parse_events

Steps: TypeAlias = tuple[str | int, ...]
"""Keys of mappings and indexes of sequences that lead to a value."""


class Position(Struct, frozen=True):
    """A line and a column of a text, both from 1."""

    line: int
    column: int


START = Position(1, 1)


class _Collection(Struct):
    """A mapping or sequence that is being read.

    path    leads to it
    index   of the next item of a sequence; -1 for a mapping
    key     of the next value of a mapping; None where a key comes next
    """

    path: Steps
    index: int
    key: str | None = None

    def next_path(self, event: Any) -> Steps:
        """Return the path of the key, value or item that begins with the event."""
        if self.index >= 0:
            self.index += 1
            return (*self.path, self.index - 1)
        if self.key is None:
            self.key = str(getattr(event, "value", ""))
            return (*self.path, self.key)
        key, self.key = self.key, None
        return (*self.path, key)


def find_positions(data: bytes, paths: Collection[Steps]) -> Mapping[Steps, Position]:
    """Return the position of each value: that of its key in a mapping, that of its beginning in a
    sequence. A value that is not in the first document has the position of the innermost collection
    that would hold it. Raises Malformed."""
    prefixes = {path[:length] for path in paths for length in range(len(path) + 1)}
    positions: dict[Steps, Position] = {}
    for path, position in _positions(data, prefixes):
        positions.setdefault(path, position)
    return {path: _innermost(positions, path) for path in paths}


def _innermost(positions: Mapping[Steps, Position], path: Steps) -> Position:
    for length in range(len(path), -1, -1):
        if path[:length] in positions:
            return positions[path[:length]]
    return START


def _positions(data: bytes, paths: Collection[Steps]) -> Iterator[tuple[Steps, Position]]:
    """Yield the positions of the wanted paths of the first document. The key of a value comes
    before the value."""
    collections: list[_Collection] = []
    for event in parse_events(data):
        name = type(event).__name__
        if name == "DocumentEndEvent":
            return
        if name in ("MappingEndEvent", "SequenceEndEvent"):
            collections.pop()
        elif name in ("ScalarEvent", "AliasEvent", "MappingStartEvent", "SequenceStartEvent"):
            path = collections[-1].next_path(event) if collections else ()
            if path in paths:
                yield path, Position(event.start_mark.line + 1, event.start_mark.column + 1)
            if name.endswith("StartEvent"):
                collections.append(_Collection(path, 0 if name == "SequenceStartEvent" else -1))
