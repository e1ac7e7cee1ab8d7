"""Pruning and defaulting of custom objects."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kapiserver.api.apiextensions.schema import defaulting, pruning, structural

STRING = {"type": "string"}
FREE = {"x-kubernetes-preserve-unknown-fields": True}


def obj(**properties):
    return {"type": "object", "properties": properties}


def prune(value, schema):
    unknown: list[str] = []
    pruned = copy.deepcopy(value)
    pruning.prune(pruned, structural.compile(schema), unknown)
    return pruned, unknown


PRUNED = {
    "metadata stays": (
        obj(a=STRING),
        {"apiVersion": "v", "kind": "k", "metadata": {"x": 1}, "a": "b"},
        {"apiVersion": "v", "kind": "k", "metadata": {"x": 1}, "a": "b"},
        [],
    ),
    "fields": (
        obj(spec=obj(a=STRING)),
        {"spec": {"a": "", "b": {"c": 1}}, "c": 1},
        {"spec": {"a": ""}},
        ["spec.b", "c"],
    ),
    "items": (
        obj(l={"type": "array", "items": obj(a=STRING)}),
        {"l": [{"a": "x"}, {"b": 1}, {"a": "y", "b": 2}]},
        {"l": [{"a": "x"}, {}, {"a": "y"}]},
        ["l[1].b", "l[2].b"],
    ),
    "entries": (
        obj(m={"type": "object", "additionalProperties": obj(a=STRING)}),
        {"m": {"x": {"a": "", "b": 1}}},
        {"m": {"x": {"a": ""}}},
        ["m.x.b"],
    ),
    "anything is kept": (
        obj(s={"type": "object", **FREE}),
        {"s": {"a": {"b": 1}}},
        {"s": {"a": {"b": 1}}},
        [],
    ),
    "what is named below anything is pruned": (
        obj(s={**obj(a=obj(b=STRING)), **FREE}),
        {"s": {"a": {"b": "", "c": 1}, "x": {"y": 1}}},
        {"s": {"a": {"b": ""}, "x": {"y": 1}}},
        ["s.a.c"],
    ),
    "items of anything": (
        obj(s={"type": "array", "items": obj(a=STRING), **FREE}),
        {"s": [{"a": "", "b": 1}]},
        {"s": [{"a": "", "b": 1}]},
        [],
    ),
    "embedded resource": (
        obj(e={**obj(spec=obj(a=STRING)), "x-kubernetes-embedded-resource": True}),
        {"e": {"apiVersion": "v", "kind": "k", "metadata": {"n": 1}, "spec": {"b": 1}, "c": 1}},
        {"e": {"apiVersion": "v", "kind": "k", "metadata": {"n": 1}, "spec": {}}},
        ["e.spec.b", "e.c"],
    ),
    "objects where a text is wanted": (
        obj(a=STRING),
        {"a": {"b": 1}},
        {"a": {}},
        ["a.b"],
    ),
    "a root that preserves": ({"type": "object", **FREE}, {"a": {"b": 1}}, {"a": {"b": 1}}, []),
}  # fmt: skip


@pytest.mark.parametrize("name", PRUNED)
def test_pruning(name):
    """Unknown fields are removed and reported."""
    schema, value, expected, unknown = PRUNED[name]
    assert prune(value, schema) == (expected, unknown)


def test_reported_unknown_fields_are_limited():
    """All unknown fields are removed; about a hundred are reported."""
    many = {str(number): number for number in range(5000)}
    pruned, unknown = prune({"s": [{"b": {}}, many, many], "t": many}, obj(s={"type": "array"}))
    assert pruned == {"s": [{}, {}, {}]}
    assert 100 <= len(unknown) <= 400


def default(value, schema):
    filled = copy.deepcopy(value)
    defaulting.apply(filled, structural.compile(schema))
    return filled


INT = {"type": "integer", "default": 1}
DEFAULTED = {
    "absent": (obj(a=INT), {}, {"a": 1}),
    "zero stays": (obj(a=INT), {"a": 0}, {"a": 0}),
    "null gives way": (obj(a=INT), {"a": None}, {"a": 1}),
    "null stays where it may": (obj(a={**INT, "nullable": True}), {"a": None}, {"a": None}),
    "null without a default is dropped": (obj(a={"type": "integer"}), {"a": None}, {}),
    "null of a map's entry": (
        obj(a={"type": "object", "additionalProperties": STRING}),
        {"a": {"x": None}},
        {"a": {}},
    ),
    "nothing is made for defaults below": (obj(a=obj(b=INT)), {}, {}),
    "defaults below": (obj(a=obj(b=INT)), {"a": {}}, {"a": {"b": 1}}),
    "defaults in defaults": (
        obj(a={**obj(b=INT, c=INT), "default": {"c": 5}}),
        {},
        {"a": {"c": 5, "b": 1}},
    ),
    "items": (
        obj(a={"type": "array", "items": obj(b=INT)}),
        {"a": [{}, {"b": 2}]},
        {"a": [{"b": 1}, {"b": 2}]},
    ),
    "unknown nulls stay": (obj(a=INT), {"x": None}, {"x": None, "a": 1}),
}  # fmt: skip


@pytest.mark.parametrize("name", DEFAULTED)
def test_defaulting(name):
    """Absent fields and invalid nulls get the schema's default."""
    schema, value, expected = DEFAULTED[name]
    assert default(value, schema) == expected


def test_defaults_are_copied():
    """Changing a default in an object does not change the schema."""
    schema = obj(a={"type": "object", "default": {"b": [1]}, **FREE})
    value = default({}, schema)
    value["a"]["b"].append(2)
    assert default({}, schema) == {"a": {"b": [1]}}


NAMES = st.sampled_from(["a", "b", "c", "kind", "metadata"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "x"]),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(NAMES, below, max_size=3),
    max_leaves=12,
)


def schemas():
    leaf = st.fixed_dictionaries(
        {"type": st.sampled_from(["string", "integer", "boolean", "number"])},
        optional={"nullable": st.booleans(), "default": st.sampled_from([None, "x", 1])},
    )
    flags = {
        "nullable": st.booleans(),
        "x-kubernetes-preserve-unknown-fields": st.just(True),
        "x-kubernetes-embedded-resource": st.just(True),
        "default": VALUES,
    }

    def wider(below):
        objects = st.fixed_dictionaries(
            {"type": st.just("object"), "properties": st.dictionaries(NAMES, below, max_size=3)},
            optional=flags,
        )
        maps = st.fixed_dictionaries(
            {"type": st.just("object"), "additionalProperties": below | st.booleans()},
            optional=flags,
        )
        lists = st.fixed_dictionaries({"type": st.just("array"), "items": below}, optional=flags)
        return objects | maps | lists

    return st.recursive(leaf, wider, max_leaves=8)


TREES = st.dictionaries(NAMES, VALUES, max_size=4)


@settings(max_examples=100)
@given(schemas(), TREES)
def test_pruning_is_idempotent(schema, value):
    """Pruning is idempotent."""
    pruned, _ = prune(value, schema)
    assert prune(pruned, schema) == (pruned, [])


@settings(max_examples=100)
@given(schemas(), TREES)
def test_defaulting_is_idempotent(schema, value):
    """Defaulting is idempotent."""
    filled = default(value, schema)
    assert default(filled, schema) == filled
