"""Declarative validation: rules that a table declares for the fields of a type.

A `FieldRules` tree has the shape of the object that it validates. An update does not validate
values that it leaves unchanged. Errors of declarative rules come after those of handwritten rules
and replace handwritten errors of the same type and path, as in kube-apiserver. The functions named
`check_...` are the same checks for handwritten validation to call.

Knows no kind. Mirrors k8s.io/apimachinery/pkg/api/validate and the code that validation-gen
generates from `+k8s:` tags.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct, field

from kapiserver.api.errors import (
    FieldError,
    Path,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
    too_many_characters,
)
from kapiserver.api.metadata_validation import IMMUTABLE
from kapiserver.api.names import Check, byte_length
from kapiserver.api.types import Tree

ABSENT: Any = object()
"""The old value where there was no old object, or where the list had no such item."""

_ROOT = Path()

Rule: TypeAlias = Callable[[Any, Any, Path], Iterator[FieldError]]
"""Yields the errors of a value: `rule(new, old, path)`; `old` may be ABSENT."""


class FieldRules(Struct, frozen=True):
    """The declarative rules of one value.

    short_circuit  rules that run first; if one fails, nothing else is validated
    rules          further rules; they run for set values and for all objects
    fields         the rules of the fields of an object, in order; a missing field counts as empty
    pointer        whether the value may be absent; then its fields are not validated
    items          the rules of each item of a list
    keys           the fields that match an item of a list with its old version
    values         the rules of each value of a map
    """

    short_circuit: Sequence[Rule] = ()
    rules: Sequence[Rule] = ()
    fields: Mapping[str, FieldRules] = field(default_factory=dict)
    pointer: bool = False
    items: FieldRules | None = None
    keys: Sequence[str] = ()
    values: FieldRules | None = None

    def errors(self, new: Any, old: Any = ABSENT, path: Path = _ROOT) -> Iterator[FieldError]:
        """Yield the errors of a value and of the values nested in it."""
        if new == old or not (self.pointer or new or old):
            return
        failures = [error for rule in self.short_circuit for error in rule(new, old, path)]
        yield from failures
        if failures or (new is None and self.pointer):
            return
        if old is None and self.pointer:
            old = ABSENT  # nested values were absent, too
        if new not in (None, "", []) or self.pointer or self.fields:
            for rule in self.rules:
                yield from rule(new, old, path)
        yield from self._nested_errors(new, old, path)

    def _nested_errors(self, new: Any, old: Any, path: Path) -> Iterator[FieldError]:
        """Yield the errors of items, map values and fields."""
        if self.items is not None:
            old_items = {} if old is ABSENT else {self._key(item): item for item in old or ()}
            for index, item in enumerate(new or ()):
                old_item = old_items.get(self._key(item), ABSENT)
                yield from self.items.errors(item, old_item, path[index])
        if self.values is not None:
            for name, value in sorted((new or {}).items()):
                old_value = ABSENT if old is ABSENT else (old or {}).get(name, ABSENT)
                yield from self.values.errors(value, old_value, path[name])
        for name, rules in self.fields.items():
            old_value = ABSENT if old is ABSENT else (old or {}).get(name)
            yield from rules.errors((new or {}).get(name), old_value, path / name)

    def _key(self, item: Tree) -> object:
        # Without keys, no item matches an old one.
        return tuple(item.get(key) or "" for key in self.keys) or object()


NO_RULES = FieldRules()
"""The rules of a type that declares none."""


def merge_errors(
    handwritten: Iterable[FieldError], declarative: Sequence[FieldError]
) -> list[FieldError]:
    """Return handwritten errors, then declarative ones, without handwritten duplicates of these."""
    covered = {_identity(error) for error in declarative}
    return [*(error for error in handwritten if _identity(error) not in covered), *declarative]


def _identity(error: FieldError) -> tuple[str, str, str]:
    # Several rules can give "Invalid value", with different details.
    return error.type, error.path.text, error.detail if error.type == "invalid" else ""


# --- rules


def immutable(_: Any, old: Any, path: Path) -> Iterator[FieldError]:
    """The value cannot be changed."""
    if old is not ABSENT:  # rules run for changed values only
        yield invalid(path, None, IMMUTABLE)


def no_modify(new: Any, old: Any, path: Path) -> Iterator[FieldError]:
    """The value can be set and cleared, but not changed."""
    if None not in (old, new) and old is not ABSENT:
        yield invalid(path, None, "field cannot be modified once set")


def no_unset(new: Any, old: Any, path: Path) -> Iterator[FieldError]:
    """The value cannot be cleared."""
    if old not in (None, ABSENT) and new is None:
        yield invalid(path, None, "field cannot be cleared once set")


def no_decrease(new: Any, old: Any, path: Path) -> Iterator[FieldError]:
    """The number cannot be decreased."""
    if old is not ABSENT and old is not None and new is not None and new < old:
        detail = f"cannot decrement, must be greater than or equal to {old}"
        yield invalid(path, new, detail)


def required_value(new: Any, _: Any, path: Path) -> Iterator[FieldError]:
    """The value must be set and not be empty."""
    if not new:
        yield required(path)


def required_pointer(new: Any, _: Any, path: Path) -> Iterator[FieldError]:
    """The value must be set; zero is allowed."""
    if new is None:
        yield required(path)


def forbidden_value(new: Any, _: Any, path: Path) -> Iterator[FieldError]:
    """The value must not be set."""
    if new is not None:
        yield forbidden(path, "")


def enum(*allowed: str) -> Rule:
    """Return the rule that the value is one of those allowed."""

    def rule(new: Any, _: Any, path: Path) -> Iterator[FieldError]:
        if new not in allowed:
            yield not_supported(path, new, allowed)

    return rule


def minimum(limit: int) -> Rule:
    """Return the rule that the number is at least `limit`."""

    def rule(new: Any, _: Any, path: Path) -> Iterator[FieldError]:
        if new is not None and new < limit:
            yield invalid(path, new, f"must be greater than or equal to {limit}")

    return rule


def maximum(limit: int) -> Rule:
    """Return the rule that the number is at most `limit`."""

    def rule(new: Any, _: Any, path: Path) -> Iterator[FieldError]:
        if new is not None and new > limit:
            yield invalid(path, new, f"must be less than or equal to {limit}")

    return rule


def max_items(limit: int) -> Rule:
    """Return the rule that the list has at most `limit` items."""
    return lambda new, _, path: check_max_items(new or (), limit, path)


def text_format(check: Check) -> Rule:
    """Return the rule that the string, or each item or key of the value, passes a check."""

    def rule(new: Any, _: Any, path: Path) -> Iterator[FieldError]:
        for text in (new,) if isinstance(new, str) else new or ():
            yield from (invalid(path, text, message) for message in check(text))

    return rule


def max_length(limit: int) -> Rule:
    """Return the rule that the string has at most `limit` characters."""

    def rule(new: Any, _: Any, path: Path) -> Iterator[FieldError]:
        if len(new or "") > limit:
            yield too_many_characters(path, limit)

    return rule


def max_bytes(limit: int) -> Rule:
    """Return the rule that the string has at most `limit` bytes in UTF-8."""

    def rule(new: Any, _: Any, path: Path) -> Iterator[FieldError]:
        if byte_length(new or "") > limit:
            yield too_long(path, limit)

    return rule


def unique(*keys: str) -> Rule:
    """Return the rule that no two items have the same keys, or are equal if no key is given."""

    def rule(new: Any, _: Any, path: Path) -> Iterator[FieldError]:
        seen: set[Any] = set()
        for index, item in enumerate(new or ()):
            identity = tuple(item.get(key) or "" for key in keys) if keys else item
            if identity in seen:
                yield duplicate(path[index], item)
            seen.add(identity)

    return rule


def union(*members: str) -> Rule:
    """Return the rule that exactly one member is set, or the same members as before."""

    def rule(new: Any, old: Any, path: Path) -> Iterator[FieldError]:
        if old is ABSENT or not same_union_members(new, old or {}, members):
            yield from check_union(new or {}, members, path)

    return rule


def discriminated(discriminator: str, member: str, rules: Mapping[str, Rule]) -> Rule:
    """Return the rule that applies to `member` the rule for the value of `discriminator`."""

    def rule(new: Any, old: Any, path: Path) -> Iterator[FieldError]:
        new_fields, old_fields = new or {}, {} if old is ABSENT else old or {}
        unchanged = old is not ABSENT and all(
            new_fields.get(name) == old_fields.get(name) for name in (discriminator, member)
        )
        member_rule = rules.get(new_fields.get(discriminator) or "")
        if member_rule is not None and not unchanged:
            yield from member_rule(new_fields.get(member), old_fields.get(member), path / member)

    return rule


# --- checks for handwritten validation


def check_union(obj: Tree, members: Sequence[str], path: Path) -> Iterator[FieldError]:
    """Check that exactly one of several fields is set."""
    set_members = _set_members(obj, members)
    names = ", ".join(f"`{name}`" for name in members)
    if not set_members:
        yield invalid(path, "", f"must specify one of: {names}")
    elif len(set_members) > 1:
        members_text = f"{{{', '.join(set_members)}}}"
        yield invalid(path, members_text, f"must specify exactly one of: {names}")


def _set_members(obj: Tree, members: Sequence[str]) -> list[str]:
    return [name for name in members if obj.get(name) not in (None, [])]


def same_union_members(new: Tree, old: Tree, members: Sequence[str]) -> bool:
    """Report whether the same members of a union are set as before."""
    return _set_members(new, members) == _set_members(old, members)


def check_required_text(value: str | None, check: Check, path: Path) -> Iterator[FieldError]:
    """Check that a string is set and passes `check`."""
    if value:
        yield from check_optional_text(value, check, path)
    else:
        yield required(path)


def check_optional_text(value: str | None, check: Check, path: Path) -> Iterator[FieldError]:
    """Check that a string passes `check` if it is set."""
    return (invalid(path, value, message) for message in (check(value) if value else ()))


def check_max_items(items: Sequence[Any], limit: int, path: Path) -> Iterator[FieldError]:
    """Check that a list has at most `limit` items."""
    if len(items) > limit:
        yield too_many(path, len(items), limit)


def check_positive(value: int | None, path: Path) -> Iterator[FieldError]:
    """Check that a number is set and at least 1."""
    if not value:
        yield required(path)
    elif value < 1:
        yield invalid(path, value, "must be greater than or equal to 1")


def check_unique(
    items: Sequence[Any], key: Callable[[Any], object], path: Path
) -> Iterator[FieldError]:
    """Check that no two items have the same key; the error shows the whole second item."""
    seen: set[str] = set()
    for index, item in enumerate(items):
        identity = json.dumps(key(item), sort_keys=True)
        if identity in seen:
            yield duplicate(path[index], item)
        seen.add(identity)


def check_immutable(new: Any, old: Any, path: Path) -> Iterator[FieldError]:
    """Check that a value did not change; the error shows no value."""
    if (new or None) != (old or None):
        yield invalid(path, None, IMMUTABLE)


def check_immutable_fields(
    new: Tree, old: Tree, fields: Sequence[str], path: Path
) -> Iterator[FieldError]:
    """Check that the fields of an object did not change."""
    for name in fields:
        yield from check_immutable(new.get(name), old.get(name), path / name)


def check_presence_unchanged(new: Any, old: Any, path: Path) -> Iterator[FieldError]:
    """Check that a field was neither set nor cleared; its content may change."""
    if old is None and new is not None:
        yield invalid(path, None, "field cannot be set once created")
    elif old is not None and new is None:
        yield invalid(path, None, "field cannot be cleared once set")


def check_names_unchanged(
    new: Sequence[Tree], old: Sequence[Tree], path: Path
) -> Iterator[FieldError]:
    """Check that no item was added to or removed from a list of items with names."""
    old_names, new_names = ({item.get("name") for item in items} for items in (old, new))
    for index, item in enumerate(new):
        if item.get("name") not in old_names:
            yield forbidden(path[index], "item may not be added")
    for item in old:
        if item.get("name") not in new_names:
            yield forbidden(path, "item may not be removed")
