"""Classes become structural schemas."""

from __future__ import annotations

import enum
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Meta, Struct, UnsetType, defstruct, field

from kapiserver.api.accessors import copy_tree
from kapiserver.api.apiextensions.schema.structural_rules import check
from kapiserver.api.errors import Path
from kapiserver.api.types import Tree
from kapiserver.extension import Object
from kapiserver.extension.objects import apply_changes
from kapiserver.extension.schemas import UnusableType, object_schema


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Part(Struct, rename="camel"):
    """One part."""

    weight_in_kg: Annotated[float, Meta(gt=0, description="How heavy.")] = 1.0


class Node(Struct):
    """A tree."""

    children: list[Node] = field(default_factory=list)


PART: Tree = {
    "description": "One part.",
    "type": "object",
    "properties": {
        "weightInKg": {
            "description": "How heavy.",
            "type": "number",
            "minimum": 0,
            "exclusiveMinimum": True,
            "default": 1.0,
        }
    },
}
STRING: Tree = {"type": "string"}
ANY: Tree = {"x-kubernetes-preserve-unknown-fields": True}


def _schema(type_: Any, default: Any = msgspec.NODEFAULT) -> Tree:
    """Return the schema of an object with one field, `value`."""
    kind = defstruct("Thing", [("value", type_, default)], bases=(Object,), kw_only=True)
    schema = object_schema(kind)
    errors = check(schema, Path("schema"))
    assert not errors
    return schema


@pytest.mark.parametrize(
    ("type_", "expected"),
    [
        (str, STRING),
        (bool, {"type": "boolean"}),
        (Annotated[int, Meta(ge=1, le=9)], {"type": "integer", "minimum": 1, "maximum": 9}),
        (
            Annotated[float, Meta(lt=2)],
            {"type": "number", "maximum": 2, "exclusiveMaximum": True},
        ),
        (
            Annotated[str, Meta(pattern="^a", max_length=3)],
            {"type": "string", "pattern": "^a", "maxLength": 3},
        ),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal[1, 2], {"type": "integer", "enum": [1, 2]}),
        (Color, {"type": "string", "enum": ["blue", "red"]}),
        (list[str], {"type": "array", "items": STRING}),
        (dict[str, Part], {"type": "object", "additionalProperties": PART}),
        (dict[str, Any], {"type": "object", **ANY}),
        (Any, ANY),
        (int | str, {"x-kubernetes-int-or-string": True}),
        (bytes, {"type": "string", "format": "byte"}),
        (Annotated[datetime, Meta(tz=True)], {"type": "string", "format": "date-time"}),
        (Decimal, {"type": "string", "format": "decimal"}),
        (Part, PART),
        (Annotated[Part, Meta(description="The best.")], {**PART, "description": "The best."}),
        (str | None, STRING),
        (str | UnsetType, STRING),
        (
            Annotated[list[str], Meta(extra_json_schema={"x-kubernetes-list-type": "set"})],
            {"type": "array", "items": STRING, "x-kubernetes-list-type": "set"},
        ),
    ],
    ids=str,
)
def test_types(type_: Any, expected: Tree) -> None:
    """The schema of each type of field is structural."""
    assert _schema(type_)["properties"]["value"] == expected


@pytest.mark.parametrize(
    ("type_", "default", "expected"),
    [
        (int, 0, {"default": 0}),
        (bool, False, {"default": False}),
        (str, "a", {"default": "a"}),
        (str, "", {}),
        (str | None, None, {}),
        (str | UnsetType, UNSET, {}),
    ],
    ids=str,
)
def test_defaults(type_: Any, default: Any, expected: Tree) -> None:
    """Defaults that say something are in the schema, and their fields are not required."""
    schema = _schema(type_, default)
    assert "required" not in schema
    value = schema["properties"]["value"]
    assert {name: value[name] for name in value if name == "default"} == expected


def test_common_fields() -> None:
    """The fields that every object has are left out, and required fields are listed."""
    schema = _schema(str)
    assert (list(schema["properties"]), schema["required"]) == (["value"], ["value"])


@pytest.mark.parametrize(
    ("type_", "message"),
    [
        (Node, "Thing.value.children[]: Node contains itself, which a schema cannot describe"),
        (list[Any] | str, "Thing.value: a schema can describe no union but"),
        (list, "Thing.value: a list needs the type of its items"),
        (tuple[int, str], "Thing.value: a list needs the type of its items"),
    ],
    ids=str,
)
def test_unusable_types(type_: Any, message: str) -> None:
    """A class that no schema can describe is refused with the path of the field."""
    with pytest.raises(UnusableType) as raised:
        _schema(type_)
    assert str(raised.value).startswith(message)


_trees = st.recursive(
    st.integers(0, 3) | st.lists(st.integers(0, 3), max_size=2),
    lambda values: st.dictionaries(st.sampled_from("abc"), values, max_size=3),
    max_leaves=8,
)
_objects = st.dictionaries(st.sampled_from("abc"), _trees, max_size=3)


@given(_objects, _objects)
def test_changes(before: Tree, after: Tree) -> None:
    """Applying all changes gives the new tree; fields that neither side knows stay."""
    tree = {**copy_tree(before), "unknown": 1}
    apply_changes(tree, before, copy_tree(after))
    assert tree == {**after, "unknown": 1}
