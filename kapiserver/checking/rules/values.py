"""Reads values of trees that may have any shape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kapiserver.checking.finding import Steps

_EMPTY: Mapping[str, Any] = {}


def value_at(tree: Any, *steps: str) -> Any:
    """Return the value that the keys lead to; None if there is none."""
    for step in steps:
        if not isinstance(tree, dict):
            return None
        tree = tree.get(step)
    return tree


def text_at(tree: Any, *steps: str) -> str:
    """Return the text that the keys lead to; "" if there is none."""
    value = value_at(tree, *steps)
    return value if isinstance(value, str) else ""


def texts_at(tree: Any, *steps: str) -> Mapping[str, str]:
    """Return the mapping of texts, such as labels, that the keys lead to; empty if there is
    none."""
    value = value_at(tree, *steps)
    if not isinstance(value, dict):
        return _EMPTY
    return {key: text for key, text in value.items() if isinstance(text, str)}


def items_at(tree: Any, *steps: str) -> Iterator[tuple[Steps, Any]]:
    """Yield the items of the list that the keys lead to, each with the steps from `tree`."""
    value = value_at(tree, *steps)
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield (*steps, index), item
