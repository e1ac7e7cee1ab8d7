"""kwok's published Stages do to the objects of kwok's tests what kwok does."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kapiserver.api.go_format import go_value, quote
from kapiserver.api.resource_client import MERGE_PATCH
from kapiserver.codecs import yaml
from kapiserver.simulation.kwok.stages.choice import candidates
from kapiserver.simulation.kwok.stages.rendering import Renderer, Surroundings
from kapiserver.simulation.kwok.stages.stage import compile_stage
from kapiserver.simulation.kwok.stages.steps import (
    ApplyObject,
    DeleteObject,
    PatchObject,
    ReportEvent,
    actions_of,
)
from tests.simulation.kwok import published

NOW = datetime(2006, 1, 2, 15, 4, 5, tzinfo=UTC).timestamp()
SETS = ("node/chaos", "node/fast", "node/heartbeat", "node/heartbeat-with-lease", "pod/chaos",
        "pod/fast", "pod/general", "volume/fast")  # fmt: skip

needs_sets = pytest.mark.skipif(
    published.folder() is None, reason=f"{published.MODULE} cannot be downloaded"
)


def call(name):
    """A function that returns how it was called, as in the outputs of kwok."""

    def called(*args):
        texts = [quote(arg) if isinstance(arg, str) else go_value(arg) for arg in args]
        return f"{name}({', '.join(texts)})" if args else name

    return called


def single(name):
    return lambda *args: f"<{call(name)(*args)}>"


def double(name):
    return lambda *args: [f"<{index} of {call(name)(*args)}>" for index in (0, 1)]


SINGLES = ("NodeIP", "NodeName", "NodePort", "PodIP", "NodeIPWith", "PodIPWith", "Now", "now",
           "Version")  # fmt: skip
OVERRIDES = {name: single(name) for name in SINGLES}
OVERRIDES |= {name: double(name) for name in ("NodeIPsWith", "PodIPsWith")}
RENDERER = Renderer(Surroundings(None, lambda: NOW, NOW, ""), OVERRIDES)


def described(action):
    """An action in the form of kwok's outputs."""
    match action:
        case DeleteObject():
            return {"kind": "delete"}
        case ReportEvent(type_, reason, message):
            return {"kind": "event", "type": type_, "reason": reason, "message": message}
        case PatchObject():
            form = {"kind": "patch", "type": action.type, "data": action.patch}
        case ApplyObject():
            form = {"kind": "apply", "type": action.type, "data": action.obj}
    return form | ({"subresource": action.subresource} if action.subresource else {})


def outcome(spec, stage, obj):
    """What a stage does to an object, in the form of kwok's outputs."""
    form = {"stage": stage.name, "weight": stage.weight(obj, NOW), "next": []}
    delays = stage.delays(obj, NOW)
    if delays:
        form["delay"] = [round(seconds * 1e9) for seconds in delays]
    for step in stage.steps:
        actions = actions_of(step, obj, RENDERER.render, MERGE_PATCH)
        form["next"] += map(described, actions)
    if spec.get("immediateNextStage"):
        form["next"].append({"kind": "immediate"})
    return form


@needs_sets
@pytest.mark.parametrize("file", published.cases(), ids=lambda file: file.name.partition(".")[0])
def test_published(file):
    obj = yaml.decode_value(file.read_bytes())
    output = file.with_name(file.name.replace(".input.", ".output."))
    expected = yaml.decode_value(output.read_bytes())["stages"]
    specs = {
        each["metadata"]["name"]: each["spec"]
        for each in published.stages("/".join(file.parts[-4:-2]))
        if each["spec"]["resourceRef"] == {"apiGroup": obj["apiVersion"], "kind": obj["kind"]}
    }
    stages = [compile_stage({"metadata": {"name": name}, "spec": specs[name]}) for name in specs]
    found = [outcome(specs[stage.name], stage, obj) for stage, _ in candidates(stages, obj, NOW)]
    assert found == expected


@needs_sets
def test_count():
    """All inputs of the sets are tested."""
    assert len(published.cases()) == 16


@needs_sets
@pytest.mark.parametrize("name", SETS)
def test_compile(name):
    for each in published.stages(name):
        assert compile_stage(each).steps
