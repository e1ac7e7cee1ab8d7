"""The positions of values in the text of a YAML document."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapiserver.codecs import yaml
from kapiserver.codecs.yaml_positions import Position, find_positions

TEXT = b"""\
# a comment
a:
  b: [1, 2,
    {c: d}]
  ? e
  : f
base: &base
  x: 1
other:
  <<: *base
  y: *base
"""


@pytest.mark.parametrize(
    ("path", "line", "column"),
    [
        ((), 2, 1),
        (("a",), 2, 1),
        (("a", "b"), 3, 3),
        (("a", "b", 1), 3, 10),
        (("a", "b", 2), 4, 5),
        (("a", "b", 2, "c"), 4, 6),
        (("a", "b", 2, "missing"), 4, 5),
        (("a", "b", 7), 3, 3),
        (("a", "e"), 5, 5),
        (("missing", "too"), 2, 1),
        (("other", "y", "x"), 11, 3),
        (("other", "x"), 9, 1),
    ],
)
def test_positions(path: tuple[str | int, ...], line: int, column: int) -> None:
    """A value is at its key or at its beginning; a missing one where it would be."""
    assert find_positions(TEXT, [path]) == {path: Position(line, column)}


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 9) | st.text("ab:\n'", max_size=5),
    lambda values: (
        st.lists(values, max_size=3) | st.dictionaries(st.text("abc", min_size=1), values)
    ),
    max_leaves=20,
)


def _paths(value: object) -> list[tuple[str | int, ...]]:
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    else:
        return [()]
    return [(), *((key, *rest) for key, item in items for rest in _paths(item))]


@given(VALUES)
def test_every_value_has_a_place_of_its_own(value: object) -> None:
    """The keys and items of encoded values stand in the order of the text, the keys where their
    position says."""
    text = yaml.encode_value(value)
    paths = [path for path in _paths(yaml.decode_value(text)) if path]
    positions = find_positions(text, paths)
    lines = text.decode().splitlines()
    for path in paths:
        if isinstance(path[-1], str):
            place = positions[path]
            rest = lines[place.line - 1][place.column - 1 :]
            assert rest.lstrip("'\"").startswith(path[-1])
    ordered = [(positions[path].line, positions[path].column) for path in paths]
    assert ordered == sorted(ordered)
