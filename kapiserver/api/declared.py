"""Rules that the types of newer kinds declare in tags (`+k8s:maxItems`), in the words that
kube-apiserver's generator of rules has for them.

Knows no kind. Mirrors k8s.io/apimachinery/pkg/api/validate.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from kapiserver.api.errors import (
    FieldError,
    Path,
    duplicate,
    forbidden,
    invalid,
    required,
    too_many,
)
from kapiserver.api.metadata import IMMUTABLE
from kapiserver.api.names import Check
from kapiserver.api.types import Tree


def one_member(obj: Tree, members: Sequence[str], path: Path) -> Iterator[FieldError]:
    """Exactly one of several fields."""
    given = _given(obj, members)
    listed = ", ".join(f"`{name}`" for name in members)
    if not given:
        yield invalid(path, "", f"must specify one of: {listed}")
    elif len(given) > 1:
        shown = f"{{{', '.join(given)}}}"
        yield invalid(path, shown, f"must specify exactly one of: {listed}")


def _given(obj: Tree, members: Sequence[str]) -> list[str]:
    return [name for name in members if obj.get(name) not in (None, [])]


def same_members(new: Tree, old: Tree, members: Sequence[str]) -> bool:
    """Whether a union has the members that it had, so that it is not looked at again."""
    return _given(new, members) == _given(old, members)


def text(value: str | None, check: Check, path: Path) -> Iterator[FieldError]:
    """A text that must be there and pass a check."""
    if value:
        yield from optional_text(value, check, path)
    else:
        yield required(path)


def optional_text(value: str | None, check: Check, path: Path) -> Iterator[FieldError]:
    """A text that must pass a check where it is given."""
    return (invalid(path, value, message) for message in (check(value) if value else ()))


def at_most(found: Sequence[Any], most: int, path: Path) -> Iterator[FieldError]:
    """A list of so many items."""
    if len(found) > most:
        yield too_many(path, len(found), most)


def positive(value: int | None, path: Path) -> Iterator[FieldError]:
    """A number that must be there and be 1 or more."""
    if not value:
        yield required(path)
    elif value < 1:
        yield invalid(path, value, "must be greater than or equal to 1")


def unique(found: Sequence[Any], key: Callable[[Any], object], path: Path) -> Iterator[FieldError]:
    """Items that no two have the same key; a message shows the whole of the second."""
    seen: set[str] = set()
    for index, item in enumerate(found):
        its = json.dumps(key(item), sort_keys=True)
        if its in seen:
            yield duplicate(path[index], item)
        seen.add(its)


def kept(new: Any, old: Any, path: Path) -> Iterator[FieldError]:
    """A value that stays as it was; a message shows none."""
    if (new or None) != (old or None):
        yield invalid(path, None, IMMUTABLE)


def unchanged(new: Tree, old: Tree, fields: Sequence[str], path: Path) -> Iterator[FieldError]:
    """Fields that stay as they were."""
    for name in fields:
        yield from kept(new.get(name), old.get(name), path / name)


def neither_set_nor_cleared(new: Any, old: Any, path: Path) -> Iterator[FieldError]:
    """A field that stays where it is, and stays away where it is not; its content may change."""
    if old is None and new is not None:
        yield invalid(path, None, "field cannot be set once created")
    elif old is not None and new is None:
        yield invalid(path, None, "field cannot be cleared once set")


def same_names(new: Sequence[Tree], old: Sequence[Tree], path: Path) -> Iterator[FieldError]:
    """A list of named items of which none comes and none goes."""
    before, now = ({one.get("name") for one in found} for found in (old, new))
    for index, one in enumerate(new):
        if one.get("name") not in before:
            yield forbidden(path[index], "item may not be added")
    for one in old:
        if one.get("name") not in now:
            yield forbidden(path, "item may not be removed")
