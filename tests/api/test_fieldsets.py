"""Field sets: operations compared with plain sets of paths, order, formatting."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kapiserver.api.apply import fieldsets
from kapiserver.api.apply.fieldsets import (
    Fields,
    difference,
    intersection,
    is_subset,
    union,
    without,
)

_STEPS = st.sampled_from(
    ["f:a", "f:b", 'k:{"name":"x"}', 'k:{"port":443}', 'k:{"port":80}', 'v:"x"', "v:2", "i:0"]
)
_PATHS = st.lists(_STEPS, min_size=1, max_size=4).map(tuple)
_SETS = st.frozensets(_PATHS, max_size=8)

Path = tuple[str, ...]


def _tree(paths: frozenset[Path]) -> Fields:
    root: dict[str, Any] = {}
    for path in sorted(paths):
        node = root
        for step in path:
            node = node.setdefault(step, {})
        node["."] = {}
    return _tidy(root)


def _tidy(node: Fields) -> Fields:
    rest = {step: _tidy(below) for step, below in node.items() if step != "."}
    return {".": {}, **rest} if "." in node and rest else rest


def _paths(fields: Fields, before: Path = ()) -> frozenset[Path]:
    paths: set[Path] = set()
    for step, below in fields.items():
        if step == ".":
            continue
        path = (*before, step)
        if not below or "." in below:
            paths.add(path)
        paths |= _paths(below, path)
    return frozenset(paths)


@given(_SETS, _SETS)
@settings(max_examples=200)
def test_algebra(left: frozenset[Path], right: frozenset[Path]) -> None:
    """Union, difference, intersection and subsets equal those of the sets of paths."""
    a, b = _tree(left), _tree(right)
    assert _paths(a) == left
    assert _paths(union(a, b)) == left | right
    assert _paths(difference(a, b)) == left - right
    assert _paths(intersection(a, b)) == left & right
    assert is_subset(a, b) == (left <= right)
    assert is_subset(intersection(a, b), a)


@given(_SETS, _SETS)
@settings(max_examples=200)
def test_without(left: frozenset[Path], right: frozenset[Path]) -> None:
    """Paths below a path of the second set are removed, too."""
    remaining = {path for path in left if not any(path[: len(cut)] == cut for cut in right)}
    assert _paths(without(_tree(left), _tree(right))) == remaining


@given(_SETS)
@settings(max_examples=100)
def test_validation(paths: frozenset[Path]) -> None:
    """Validating and sorting a set does not change it."""
    tree = _tree(paths)
    for text in (fieldsets.text_of(tree), None):
        assert fieldsets.sort_steps(fieldsets.validate(tree, text)) == tree


def test_order() -> None:
    """Steps are sorted by kind, then by value: numbers numerically."""
    mixed: Fields = {
        'k:{"port":443,"protocol":"TCP"}': {},
        'k:{"port":80,"protocol":"UDP"}': {},
        'k:{"port":80,"protocol":"TCP"}': {},
        "f:b": {},
        "f:a": {},
        ".": {},
    }
    assert list(fieldsets.sort_steps(mixed)) == [
        ".",
        "f:a",
        "f:b",
        'k:{"port":80,"protocol":"TCP"}',
        'k:{"port":80,"protocol":"UDP"}',
        'k:{"port":443,"protocol":"TCP"}',
    ]


def test_formatted_paths() -> None:
    """A path is formatted as in kube-apiserver's messages."""
    fields: Fields = {
        "f:spec": {
            "f:containers": {'k:{"name":"x"}': {".": {}, "f:image": {}}},
            "f:finalizers": {'v:"a"': {}},
            "f:list": {"i:3": {}},
        }
    }
    assert list(fieldsets.format_paths(fields)) == [
        '.spec.containers[name="x"]',
        '.spec.containers[name="x"].image',
        '.spec.finalizers[="a"]',
        ".spec.list[3]",
    ]


@pytest.mark.parametrize(
    "bad",
    [
        [],
        "f:a",
        {"a": {}},
        {"x:a": {}},
        {"k:1": {}},
        {"k:{}": {}},
        {"k:{": {}},
        {"i:x": {}},
        {"f:a": 1},
        {"f:a": {"f:b": None}},
        {"f:a": {".": 1}},
    ],
)
def test_malformed_sets(bad: Any) -> None:
    """A malformed set of fields is refused."""
    for text in (fieldsets.text_of(bad), None):
        with pytest.raises(ValueError, match=r"."):
            fieldsets.validate(bad, text)


def test_depth() -> None:
    """A set that nests too deeply is refused."""
    deep: Fields = {}
    for _ in range(300):
        deep = {"f:a": deep}
    with pytest.raises(ValueError, match="too deep"):
        fieldsets.validate(deep, fieldsets.text_of(deep))
