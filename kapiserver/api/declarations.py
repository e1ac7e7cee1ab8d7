"""What types declare of their fields, as literal tables beside the rules that are written by hand.

A declaration lies over an object as a tree of the same shape. What an update leaves as it was is
not looked at again; what is found comes after all that handwritten rules find, and in the place of
what they find of the same kind at the same field, as with kube-apiserver's DeclarativeValidation.

Knows no kind. Mirrors k8s.io/apimachinery/pkg/api/validate and what its generator makes of tags.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from kapiserver.api import declared
from kapiserver.api.errors import (
    FieldError,
    Path,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
    too_many_characters,
)
from kapiserver.api.metadata import IMMUTABLE
from kapiserver.api.names import Check, byte_length
from kapiserver.api.types import Tree

ABSENT: Any = object()
"""In the place of an old value: there was no object before, or no such item of a list."""

_WHOLE = Path()

Rule: TypeAlias = Callable[[Any, Any, Path], Iterator[FieldError]]
"""What is wrong with a value, given (new, old, path); the old one may be ABSENT."""


@dataclass(frozen=True, slots=True)
class Declared:
    """What is declared of one value.

    first     rules that come before all others; where one speaks, nothing else is looked at
    rules     further rules, of a value that is there, and of all objects
    fields    of an object: its fields, in order; one that is missing counts as empty
    pointer   the value may be missing as a whole, and then its fields are not looked at
    items     of a list: each item
    keys      the fields by which an item of the list is known again
    values    of a map: each value
    """

    first: Sequence[Rule] = ()
    rules: Sequence[Rule] = ()
    fields: Mapping[str, Declared] = field(default_factory=dict)
    pointer: bool = False
    items: Declared | None = None
    keys: Sequence[str] = ()
    values: Declared | None = None

    def errors(self, new: Any, old: Any = ABSENT, path: Path = _WHOLE) -> Iterator[FieldError]:
        """What is wrong with a value, and with what lies in it."""
        if new == old or not (self.pointer or new or old):
            return
        found = [error for rule in self.first for error in rule(new, old, path)]
        yield from found
        if found or (new is None and self.pointer):
            return
        if old is None and self.pointer:
            old = ABSENT  # what lies in it was not there either
        if new not in (None, "", []) or self.pointer or self.fields:
            for rule in self.rules:
                yield from rule(new, old, path)
        yield from self._below(new, old, path)

    def _below(self, new: Any, old: Any, path: Path) -> Iterator[FieldError]:
        """What is wrong with items, values and fields."""
        if self.items is not None:
            known = {} if old is ABSENT else {self._key(one): one for one in old or ()}
            for index, item in enumerate(new or ()):
                before = known.get(self._key(item), ABSENT)
                yield from self.items.errors(item, before, path[index])
        if self.values is not None:
            for name, value in sorted((new or {}).items()):
                before = ABSENT if old is ABSENT else (old or {}).get(name, ABSENT)
                yield from self.values.errors(value, before, path[name])
        for name, below in self.fields.items():
            before = ABSENT if old is ABSENT else (old or {}).get(name)
            yield from below.errors((new or {}).get(name), before, path / name)

    def _key(self, item: Tree) -> object:
        # Without keys no item is another's successor.
        return tuple(item.get(key) or "" for key in self.keys) or object()


NOTHING = Declared()
"""Of most types."""


def overruled(handwritten: Iterable[FieldError], found: Sequence[FieldError]) -> list[FieldError]:
    """All errors there are: declared rules speak last, and for handwritten ones that mean the
    same."""
    covered = {_meaning(error) for error in found}
    return [*(error for error in handwritten if _meaning(error) not in covered), *found]


def _meaning(error: FieldError) -> tuple[str, str, str]:
    # Only "Invalid value" is said of many things.
    return error.type, error.path.text, error.detail if error.type == "invalid" else ""


# Rules.


def immutable(_: Any, old: Any, path: Path) -> Iterator[FieldError]:
    """A value that stays as it was."""
    if old is not ABSENT:  # and differs, or it were not looked at
        yield invalid(path, None, IMMUTABLE)


def unmodified(new: Any, old: Any, path: Path) -> Iterator[FieldError]:
    """A value that may be set and cleared, and not be changed."""
    if None not in (old, new) and old is not ABSENT:
        yield invalid(path, None, "field cannot be modified once set")


def uncleared(new: Any, old: Any, path: Path) -> Iterator[FieldError]:
    """A value that stays, once it is set."""
    if old not in (None, ABSENT) and new is None:
        yield invalid(path, None, "field cannot be cleared once set")


def rising(new: Any, old: Any, path: Path) -> Iterator[FieldError]:
    """A number that never gets smaller."""
    if old is not ABSENT and old is not None and new is not None and new < old:
        detail = f"cannot decrement, must be greater than or equal to {old}"
        yield invalid(path, new, detail)


def needed(new: Any, _: Any, path: Path) -> Iterator[FieldError]:
    """A value that must be there, and not be empty."""
    if not new:
        yield required(path)


def present(new: Any, _: Any, path: Path) -> Iterator[FieldError]:
    """A value that must be there, be it 0."""
    if new is None:
        yield required(path)


def refused(new: Any, _: Any, path: Path) -> Iterator[FieldError]:
    """A value that must not be there."""
    if new is not None:
        yield forbidden(path, "")


def one_of(*allowed: str) -> Rule:
    """One of several words."""

    def rule(new: Any, _: Any, path: Path) -> Iterator[FieldError]:
        if new not in allowed:
            yield not_supported(path, new, allowed)

    return rule


def at_least(least: int) -> Rule:
    """A number of so much."""

    def rule(new: Any, _: Any, path: Path) -> Iterator[FieldError]:
        if new is not None and new < least:
            yield invalid(path, new, f"must be greater than or equal to {least}")

    return rule


def no_more_than(most: int) -> Rule:
    """A number of so much."""

    def rule(new: Any, _: Any, path: Path) -> Iterator[FieldError]:
        if new is not None and new > most:
            yield invalid(path, new, f"must be less than or equal to {most}")

    return rule


def at_most(most: int) -> Rule:
    """A list of so many items."""
    return lambda new, _, path: declared.at_most(new or (), most, path)


def spelled(check: Check) -> Rule:
    """A text, or each key of a map, that passes a check."""

    def rule(new: Any, _: Any, path: Path) -> Iterator[FieldError]:
        for text in (new,) if isinstance(new, str) else new or ():
            yield from (invalid(path, text, message) for message in check(text))

    return rule


def characters(most: int) -> Rule:
    """A text of so many characters."""

    def rule(new: Any, _: Any, path: Path) -> Iterator[FieldError]:
        if len(new or "") > most:
            yield too_many_characters(path, most)

    return rule


def octets(most: int) -> Rule:
    """A text of so many bytes."""

    def rule(new: Any, _: Any, path: Path) -> Iterator[FieldError]:
        if byte_length(new or "") > most:
            yield too_long(path, most)

    return rule


def unique(*keys: str) -> Rule:
    """Items that differ: in some fields, or texts as a whole."""

    def rule(new: Any, _: Any, path: Path) -> Iterator[FieldError]:
        seen: set[Any] = set()
        for index, item in enumerate(new or ()):
            its = tuple(item.get(key) or "" for key in keys) if keys else item
            if its in seen:
                yield duplicate(path[index], item)
            seen.add(its)

    return rule


def one_member(*members: str) -> Rule:
    """Exactly one of several fields, unless they are those that were there before."""

    def rule(new: Any, old: Any, path: Path) -> Iterator[FieldError]:
        if old is ABSENT or not declared.same_members(new, old or {}, members):
            yield from declared.one_member(new or {}, members, path)

    return rule


def by_mode(mode: str, member: str, rules: Mapping[str, Rule]) -> Rule:
    """What holds for a field depends on what another one says."""

    def rule(new: Any, old: Any, path: Path) -> Iterator[FieldError]:
        its, before = new or {}, {} if old is ABSENT else old or {}
        same = old is not ABSENT and all(its.get(one) == before.get(one) for one in (mode, member))
        wanted = rules.get(its.get(mode) or "")
        if wanted is not None and not same:
            yield from wanted(its.get(member), before.get(member), path / member)

    return rule
