"""Makes variations of custom resources, with values from their schemas. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import zip_longest
from typing import Any

from msgspec import structs

from kapiserver.api.types import Tree
from kapiserver.exploring.history import WORKLOAD, History, ObjectRef
from kapiserver.exploring.planning.plans import Injection, Plan, step_point
from kapiserver.exploring.planning.variation import Variation, parse_variation
from kapiserver.exploring.steps import Apply, Patch, Scale, Step

MAX_DEPTH = 6
"""Depth of the properties that are changed."""
NONSENSE = "no such value!"
SAMPLE_KEY, SAMPLE = "vary", "a"
_NUMBER = re.compile(r"\d+")


def variation_of(plan: Plan) -> Variation | None:
    """Return the variation of a plan, None if it has none."""
    for injection in plan.injections:
        if injection.action == "vary":
            return parse_variation(injection.argument)
    return None


def make_variations(definitions: Sequence[Tree], history: History) -> list[Injection]:
    """Return the variations of the custom resources that the workload creates and that are there at
    the end of a plain run, as injections at the end. The properties take turns."""
    created = {
        commit.object
        for commit in history.commits
        if commit.actor == WORKLOAD and commit.operation == "created"
    }
    end = step_point(sum(mark.step is not None for mark in history.marks))
    schemas = {
        (definition["spec"]["group"], definition["spec"]["names"]["kind"]): definition
        for definition in definitions
    }
    injections = []
    for reference, obj in history.final.items():
        group = obj["apiVersion"].rpartition("/")[0]
        definition = schemas.get((group, obj["kind"]))
        if definition is None or reference not in created:
            continue
        by_path: dict[tuple[str, ...], list[Variation]] = {}
        for variation in _variations(reference, _schema(definition, obj), obj):
            by_path.setdefault(variation.path, []).append(variation)
        turns = zip_longest(*by_path.values())
        injections += [
            Injection("vary", end, None, variation.to_text())
            for turn in turns
            for variation in turn
            if variation is not None
        ]
    return injections


def _schema(definition: Tree, obj: Tree) -> Tree:
    version = obj["apiVersion"].rpartition("/")[2]
    for item in definition["spec"]["versions"]:
        if item["name"] == version:
            schema: Tree = (item.get("schema") or {}).get("openAPIV3Schema") or {}
            return schema
    return {}


def _variations(reference: ObjectRef, schema: Tree, obj: Tree) -> Iterator[Variation]:
    properties = schema.get("properties") or {}
    spec = properties.get("spec")
    if isinstance(spec, dict):
        present = obj.get("spec") or {}
        for path, value in _values(("spec",), spec, present):
            base = Variation(object=reference, path=path, value=value)
            if value is _ABSENT:
                yield structs.replace(base, value=None, is_absent=True)
            else:
                yield structs.replace(base, is_valid=value not in (NONSENSE, ""))


_ABSENT = object()


def _values(
    path: tuple[str, ...], schema: Tree, value: Any, *, is_required: bool = False
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield paths below a property and other values for them, those of present properties
    first."""
    properties = schema.get("properties") or {}
    if properties and len(path) <= MAX_DEPTH:
        present = value if isinstance(value, dict) else {}
        for name in sorted(properties, key=lambda name: (name not in present, name)):
            yield from _values(
                (*path, name),
                properties[name],
                present.get(name, _ABSENT),
                is_required=name in (schema.get("required") or ()),
            )
        return
    others = [other for other in _other_values(schema, value) if other != value]
    if value is not _ABSENT and "default" not in schema and not is_required:
        others.insert(1, _ABSENT)  # operators expect what the schema does not require
    yield from ((path, other) for other in others)


def _other_values(schema: Tree, value: Any) -> Iterator[Any]:
    """Yield values of the schema's type: null, its bounds and enums, and neighbours of the
    value."""
    if schema.get("nullable"):
        yield None
    if schema.get("enum"):
        yield from schema["enum"]
        return
    match schema.get("type"):
        case "boolean":
            yield value is not True
        case "integer" | "number":
            yield from _numbers(schema, 0 if value is _ABSENT else value)
        case "string":
            yield from _texts(schema, value)
        case "object" if schema.get("additionalProperties"):
            present = value if isinstance(value, dict) else {}
            if (schema["additionalProperties"] or {}).get("type") == "string":
                yield {**present, SAMPLE_KEY: SAMPLE}
        case "array" if isinstance(value, list) and value:
            yield value[:-1]


def _numbers(schema: Tree, value: Any) -> Iterator[Any]:
    bounds = [schema[name] for name in ("maximum", "minimum") if name in schema]
    yield from dict.fromkeys([*bounds, value + 1, max(0, value - 1)])


def _texts(schema: Tree, value: Any) -> Iterator[str]:
    text = value if isinstance(value, str) else ""
    number = _NUMBER.search(text)
    if number is not None:
        yield text[: number.start()] + str(int(number[0]) + 1) + text[number.end() :]
    elif text and "format" not in schema and "pattern" not in schema:
        yield f"{text}-2"
    yield NONSENSE
    yield ""


def varied_steps(
    steps: Sequence[Step], changing: Collection[int], variation: Variation, obj: Tree
) -> tuple[Step, ...]:
    """Return the steps of a fresh installation of the varied object: what the workload applies has
    its specification from the beginning.

    changing    the indices of the steps in which the workload writes the object
    obj         the object at the end of a plain run
    """
    changed = variation.changed(obj)
    spec = {"spec": changed["spec"]} if "spec" in changed else {}
    varied: list[Step] = []
    for index, step in enumerate(steps):
        if isinstance(step, Apply) and _applies(step, obj):
            objects = tuple(
                _without_spec(item) | spec if _is_same(item, obj) else item for item in step.objects
            )
            varied.append(Apply(objects, step.namespace))
        elif index not in changing or not isinstance(step, Patch | Scale):
            varied.append(step)
        elif isinstance(step, Patch):
            rest = _without_spec(step.patch)
            varied += [Patch(step.target, rest)] if rest else []
    return tuple(varied)


def _without_spec(tree: Tree) -> Tree:
    return {name: value for name, value in tree.items() if name != "spec"}


def _applies(step: Step, obj: Tree) -> bool:
    return isinstance(step, Apply) and any(_is_same(item, obj) for item in step.objects)


def _is_same(item: Tree, obj: Tree) -> bool:
    name = (item.get("metadata") or {}).get("name")
    kind = (item.get("apiVersion"), item.get("kind"), name)
    return kind == (obj["apiVersion"], obj["kind"], obj["metadata"]["name"])
