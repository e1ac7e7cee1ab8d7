"""Finds the value of an object that a message of the server names."""

from __future__ import annotations

import re
from typing import Any

from kapiserver.api.types import Tree
from kapiserver.checking.finding import Steps

_INDEX = re.compile(r"\d+")
_MEMBER = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*"|[^,]*)')
_NAME = re.compile(r"[^.\[]+")


def resolve(tree: Tree, text: str) -> Steps:
    """Return the steps of a path such as `spec.ports[0].name`, `metadata.labels[a.b/c]`, or
    `.spec.containers[name="web"].image` of a fields set, as far as the tree has them. One step
    further names a field that is missing."""
    steps: list[str | int] = []
    value: Any = tree
    rest = text
    while rest:
        rest = rest.removeprefix(".")
        if rest.startswith("["):
            inside, _, rest = rest[1:].partition("]")
            step = _item(value, inside)
        else:
            step, rest = _key(value, rest)
        if step is None:
            break
        steps.append(step)
        value = _at(value, step)
        if value is None:
            break
    return tuple(steps)


def _item(value: Any, text: str) -> str | int | None:
    """Return the step to a key of a mapping or an item of a sequence, given between brackets."""
    if isinstance(value, dict):
        return text.strip('"')
    if not isinstance(value, list):
        return None
    if _INDEX.fullmatch(text):
        return int(text) if int(text) < len(value) else None
    members = {name: member.strip('"') for name, member in _MEMBER.findall(text)}
    for index, item in enumerate(value):
        if _matches(item, members) if members else str(item) == text.removeprefix("=").strip('"'):
            return index
    return None


def _matches(item: Any, members: dict[str, str]) -> bool:
    """Report whether an item has the members; one that it leaves out may have a default."""
    return isinstance(item, dict) and all(
        str(item.get(name, member)) == member for name, member in members.items()
    )


def _key(value: Any, text: str) -> tuple[str | None, str]:
    """Return the key at the beginning of a text, and what follows it. A key may contain dots."""
    if not isinstance(value, dict):
        return None, ""
    for key in sorted(value, key=len, reverse=True):
        if key and text.startswith(key) and text[len(key) : len(key) + 1] in ("", ".", "["):
            return key, text[len(key) :]
    match = _NAME.match(text)
    return (match[0], text[match.end() :]) if match else (None, "")


def _at(value: Any, step: str | int) -> Any:
    if isinstance(value, dict):
        return value.get(str(step))
    return value[int(step)]
