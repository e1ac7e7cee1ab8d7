"""Which values a custom resource gets."""

from __future__ import annotations

from typing import Any

import pytest

from kapiserver.exploring.planning.plans import Plan
from kapiserver.exploring.planning.variations import make_variations, variation_of, varied_steps
from kapiserver.exploring.steps import Apply, Settle
from tests.exploring.histories import ref

DB = ref("databases.example.com", "db")


def database(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Database",
        "metadata": {"name": "db"},
        "spec": spec,
    }


def definition(**properties: Any) -> dict[str, Any]:
    spec = {"type": "object", "properties": properties}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    names = {"kind": "Database", "plural": "databases"}
    versions = [{"name": "v1", "schema": schema}]
    return {
        "kind": "CustomResourceDefinition",
        "spec": {"group": "example.com", "names": names, "versions": versions},
    }


@pytest.mark.parametrize(
    ("schema", "spec", "texts"),
    [
        ({"type": "boolean"}, {"x": True}, ["false", "absent"]),
        ({"type": "boolean", "default": True}, {"x": True}, ["false"]),
        ({"type": "string", "enum": ["a", "b"]}, {"x": "a"}, ['"b"', "absent"]),
        ({"type": "integer", "minimum": 1, "maximum": 9}, {"x": 1}, ["9", "2", "0", "absent"]),
        ({"type": "integer"}, {}, ["1", "0"]),
        ({"type": "string"}, {"x": "1Gi"}, ['"2Gi"', '"no such value!"', '""', "absent"]),
        ({"type": "object", "additionalProperties": {"type": "string"}}, {}, ['{"vary":"a"}']),
        ({"type": "array", "items": {}}, {"x": [1, 2]}, ["[1]", "absent"]),
    ],
)
def test_values(schema: dict[str, Any], spec: dict[str, Any], texts: list[str]) -> None:
    """Bounds, enums, neighbours, nonsense, and no value."""
    obj = database(**spec)
    steps = [Apply((obj,), "default")]
    injections = make_variations([definition(x=schema)], {DB: obj}, steps)
    assert [
        injection.argument and str(variation_of(Plan((injection,)))) for injection in injections
    ] == [f"spec.x of {DB} to {text}" for text in texts]


def test_nonsense_is_not_valid() -> None:
    """Only values that make sense are compared with a fresh installation."""
    obj = database(x="1Gi")
    injections = make_variations(
        [definition(x={"type": "string"})], {DB: obj}, [Apply((obj,), "default")]
    )
    variations = [variation_of(Plan((injection,))) for injection in injections]
    assert [variation.is_valid for variation in variations if variation] == [
        True, False, False, True,
    ]  # fmt: skip


def test_fresh_installation() -> None:
    """The step that applies the object applies the varied one."""
    obj = database(x=1)
    steps = [Apply((obj,), "default"), Settle()]
    injections = make_variations([definition(x={"type": "integer"})], {DB: obj}, steps)
    variation = variation_of(Plan((injections[0],)))
    assert variation is not None
    assert varied_steps(steps, variation, obj) == (Apply((database(x=2),), "default"), Settle())


def test_objects_that_the_workload_does_not_apply() -> None:
    """They are not varied, nor are those that are gone at the end."""
    obj, crd = database(x=1), definition(x={"type": "integer"})
    assert make_variations([crd], {DB: obj}, [Settle()]) == []
    assert make_variations([crd], {}, [Apply((obj,), "default")]) == []
