"""JSONPath of printer columns."""

from __future__ import annotations

from typing import Any

import pytest

from kapiserver.api.json_path import compile_path

OBJECT = {
    "items": [{"name": "a", "size": 1}, {"name": "b", "size": 2}],
    "a.b": {"c": "x"},
    "nested": {"name": "n", "inner": {"name": "m"}},
}


@pytest.mark.parametrize(
    ("path", "values"),
    [
        (".items[0].name", ["a"]),
        (".items[-1].name", ["b"]),
        (".items[*].size", [1, 2]),
        (".items[0:1].name", ["a"]),
        ("$['a.b'].c", ["x"]),
        (".a\\.b.c", ["x"]),
        ('.items[?(@.name=="b")].size', [2]),
        (".items[?(@.size > 1)].name", ["b"]),
        (".items[?( @.size <= 1 )].name", ["a"]),
        (".items[?(@.missing)].name", []),
        ("..name", ["a", "b", "n", "m"]),
        (".nested..name", ["n", "m"]),
    ],
)
def test_values(path: str, values: list[Any]) -> None:
    """A path returns the values in document order."""
    assert compile_path(path)(OBJECT) == values


def test_an_object_is_returned_once() -> None:
    """Two recursive steps reach an object in many ways, and return it once."""
    nested: dict[str, Any] = {"a": {}}
    for _ in range(100):
        nested = {"a": nested}
    assert len(compile_path("..a..a..a..a")(nested)) == 98


@pytest.mark.parametrize("path", ["..a" * 5, ".a" * 101, "[", "[?(@.a==x)]", "[?(@.a", "..", "a b"])
def test_malformed_paths(path: str) -> None:
    """A malformed or too expensive path raises ValueError."""
    with pytest.raises(ValueError, match="unrecognized"):
        compile_path(path)
