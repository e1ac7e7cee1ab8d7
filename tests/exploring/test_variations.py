"""Which values a custom resource gets."""

from __future__ import annotations

from typing import Any

import pytest

from kapiserver.exploring.history import History
from kapiserver.exploring.planning.plans import Plan
from kapiserver.exploring.planning.variations import make_variations, variation_of, varied_steps
from kapiserver.exploring.steps import Apply, Patch, Scale, Settle, Target
from tests.exploring.histories import Builder, Tree, ref

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


def created(obj: Tree) -> History:
    """Return the history of a workload of one step that creates an object."""
    run = Builder()
    run.step(0)
    run.workload(DB, obj)
    return run.build()


@pytest.mark.parametrize(
    ("schema", "spec", "texts"),
    [
        ({"type": "boolean"}, {"x": True}, ["false", "absent"]),
        ({"type": "boolean", "default": True}, {"x": True}, ["false"]),
        ({"type": "string", "enum": ["a", "b"]}, {"x": "a"}, ['"b"', "absent"]),
        ({"type": "integer", "minimum": 1, "maximum": 9}, {"x": 1}, ["9", "absent", "2", "0"]),
        ({"type": "integer"}, {}, ["1", "0"]),
        ({"type": "string"}, {"x": "1Gi"}, ['"2Gi"', "absent", '"no such value!"', '""']),
        ({"type": "boolean", "nullable": True}, {"x": True}, ["null", "absent", "false"]),
        ({"type": "object", "additionalProperties": {"type": "string"}}, {}, ['{"vary":"a"}']),
        ({"type": "array", "items": {}}, {"x": [1, 2]}, ["[1]", "absent"]),
    ],
)
def test_values(schema: dict[str, Any], spec: dict[str, Any], texts: list[str]) -> None:
    """Bounds, enums, neighbours, nonsense, and no value."""
    injections = make_variations([definition(x=schema)], created(database(**spec)))
    assert [
        injection.argument and str(variation_of(Plan((injection,)))) for injection in injections
    ] == [f"spec.x of {DB} to {text}" for text in texts]


def test_required_properties() -> None:
    """They are not absent, because the server would refuse that."""
    crd = definition(x={"type": "boolean"})
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] |= {
        "required": ["x"]
    }
    (injection,) = make_variations([crd], created(database(x=True)))
    assert str(variation_of(Plan((injection,)))) == f"spec.x of {DB} to false"


def test_nonsense_is_not_valid() -> None:
    """Only values that make sense are compared with a fresh installation."""
    history = created(database(x="1Gi"))
    injections = make_variations([definition(x={"type": "string"})], history)
    variations = [variation_of(Plan((injection,))) for injection in injections]
    assert [variation.is_valid for variation in variations if variation] == [
        True, True, False, False,
    ]  # fmt: skip


def test_fresh_installation() -> None:
    """The step that applies the object applies the varied one, with what later steps would have
    changed of its specification; these steps change the rest."""
    obj, final = database(x=0), database(x=1, y=2)
    target, other = Target("database", "db", "default"), Target("database", "other", "default")
    labels = {"metadata": {"labels": {"a": "b"}}}
    patched = Patch(target, {"spec": {"x": 1}, **labels})
    steps = [Apply((obj,), "default"), Settle(), patched, Scale(target, 3), Scale(other, 3)]
    injections = make_variations([definition(x={"type": "integer"})], created(final))
    variation = variation_of(Plan((injections[0],)))
    assert variation is not None
    assert varied_steps(steps, {0, 2, 3}, variation, final) == (
        Apply((database(x=2, y=2),), "default"), Settle(), Patch(target, labels), Scale(other, 3),
    )  # fmt: skip


def test_objects_that_the_workload_does_not_apply() -> None:
    """They are not varied, nor are those that are gone at the end."""
    obj, crd = database(x=1), definition(x={"type": "integer"})
    run = Builder()
    run.server(DB, obj)
    assert make_variations([crd], run.build()) == []
    run = Builder()
    run.workload(DB, obj)
    run.workload(DB, None)
    assert make_variations([crd], run.build()) == []
