"""Strategic merge patch for each kind: kubectl's patch between two objects turns one into the
other."""

from __future__ import annotations

import functools
import random
from dataclasses import dataclass
from typing import Any

import pytest

from kapiserver.api.group import GroupVersionKind
from kapiserver.api.patches import strategic_merge_patch
from kapiserver.api.types import (
    ListOf,
    MapOf,
    Message,
    Scalar,
    ScalarType,
    Shape,
    Tree,
    Type,
    Value,
)
from tests.objects import SCHEME
from tests.trees import filled

KINDS = [
    version.with_kind(resource.kind)
    for group in SCHEME.groups
    for version in group.group_versions
    for resource in SCHEME.resources(version.group)
    if version.version in resource.versions
]
ROUNDS = 3
"""Pairs of objects for each kind."""


@dataclass(frozen=True)
class Rule:
    """The patch options of a field: its merge key ("" for scalars), its patch strategy, and the
    rules of its fields."""

    shape: Shape | None = None
    key: str | None = None
    strategies: tuple[str, ...] = ()

    @property
    def item(self) -> Shape | None:
        return self.shape.item if isinstance(self.shape, ListOf) else None


NO_RULE = Rule()


@functools.cache
def rules(type_: type[Type]) -> dict[str, Rule]:
    """Return the rules of a type's fields."""
    return {
        flat_field.field.name: Rule(
            flat_field.field.shape,
            flat_field.field.options.merge,
            tuple((flat_field.field.options.patch or "").split(",")),
        )
        for flat_field in type_.flat_fields()
    }


def rule_of(shape: Shape | None, name: str) -> Rule:
    """Return the rule of a field of an object."""
    if isinstance(shape, MapOf):
        return Rule(shape.value)
    if isinstance(shape, Message) and not issubclass(shape.type, ScalarType):
        return rules(shape.type).get(name, NO_RULE)
    return NO_RULE


def variant(tree: Value, shape: Shape | None, dice: random.Random) -> Value:
    """Return the value with some fields removed, some changed, and lists of several items."""
    if isinstance(tree, dict):
        return {
            name: _member(value, rule_of(shape, name), dice)
            for name, value in tree.items()
            if value is not None and dice.random() < 0.8
        }
    if isinstance(tree, list):
        inner = shape.item if isinstance(shape, ListOf) else None
        return [variant(item, inner, dice) for item in tree * dice.randrange(3)]
    if isinstance(tree, str) and dice.random() < 0.3:
        return tree + dice.choice("xyz")
    return tree


def _member(value: Value, rule: Rule, dice: random.Random) -> Value:
    if rule.key is None or not isinstance(value, list) or not value:
        return variant(value, rule.shape, dice)
    names = dice.sample(range(5), dice.randrange(4))
    if not rule.key:
        return [f"{value[0]}{name}" for name in names]
    number = rules(rule.item.type)[rule.key].shape in (Scalar("int32"), Scalar("int64"))
    return [
        {**variant(value[0], rule.item, dice), rule.key: name if number else f"name-{name}"}
        for name in names
    ]


def two_way(old: Tree, new: Tree, shape: Shape | None) -> Tree:
    """Return the patch from one object to the other, as kubectl's CreateTwoWayMergePatch makes
    it."""
    patch: Tree = {name: None for name in old if name not in new}
    for name, value in new.items():
        rule, old_name = rule_of(shape, name), old.get(name)
        if value == old_name:
            continue
        if isinstance(value, dict) and isinstance(old_name, dict):
            patch[name] = _of_objects(old_name, value, rule)
        elif isinstance(value, list) and isinstance(old_name, list) and rule.key is not None:
            patch |= _of_lists(name, old_name, value, rule)
        else:
            patch[name] = value
    return patch


def _of_objects(old: Tree, new: Tree, rule: Rule) -> Tree:
    if "replace" in rule.strategies:
        return {**new, "$patch": "replace"}
    return two_way(old, new, rule.shape) | _retained(new, rule)


def _retained(new: Tree, rule: Rule) -> Tree:
    return {"$retainKeys": sorted(new)} if "retainKeys" in rule.strategies else {}


def _of_lists(name: str, old: list[Any], new: list[Any], rule: Rule) -> Tree:
    if not rule.key:
        return {
            f"$setElementOrder/{name}": new,
            f"$deleteFromPrimitiveList/{name}": [item for item in old if item not in new],
            name: [item for item in new if item not in old],
        }
    key, old_items = rule.key, {item[rule.key]: item for item in old}
    changes = [
        {**two_way(old_items[item[key]], item, rule.item), key: item[key]} | _retained(item, rule)
        if item[key] in old_items
        else item
        for item in new
        if old_items.get(item[key]) != item
    ]
    names = {item[key] for item in new}
    deletions = [{"$patch": "delete", key: item} for item in old_items if item not in names]
    order = [{key: item[key]} for item in new]
    return {f"$setElementOrder/{name}": order, name: [*changes, *deletions]}


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_two_way(kind: GroupVersionKind) -> None:
    """The patch between two objects of a kind, applied to the first, gives the second."""
    type_ = SCHEME.type_of(kind)
    dice, shape, full_object = random.Random(str(kind)), Message(type_), filled(type_)
    for _ in range(ROUNDS):
        old, new = variant(full_object, shape, dice), variant(full_object, shape, dice)
        patch = two_way(old, new, shape)
        assert strategic_merge_patch.apply(old, strategic_merge_patch.read(patch), type_) == new
        assert strategic_merge_patch.apply(old, {}, type_) == old
