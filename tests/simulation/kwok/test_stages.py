"""Stages without a server: what they select, how long they wait, and what they do."""

from __future__ import annotations

from random import Random

import pytest

from kapiserver.api.patches import json_patch
from kapiserver.api.resource_client import JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from kapiserver.simulation.kwok.stages.choice import candidates, choose, delay_of
from kapiserver.simulation.kwok.stages.expressions import StageError
from kapiserver.simulation.kwok.stages.rendering import Renderer, Surroundings
from kapiserver.simulation.kwok.stages.stage import compile_stage
from kapiserver.simulation.kwok.stages.steps import (
    APPLY,
    ApplyObject,
    DeleteObject,
    PatchObject,
    ReportEvent,
    actions_of,
    finalizer_operations,
)
from kapiserver.simulation.templates.errors import TemplateError
from tests.simulation.kwok.stage_objects import expressions, stage, status_patch

NOW = 1_700_000_000.25
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "web",
        "namespace": "shop",
        "uid": "u1",
        "labels": {"app": "web"},
        "annotations": {
            "delay": "2s",
            "until": "2023-11-14T22:13:30Z",
            "empty": "",
            "weight": "0x10",
            "bad": "x",
        },
    },
    "spec": {"nodeName": "one", "replicas": 3, "on": True},
    "status": {"phase": "Running"},
}


class Hosts:
    """Addresses that tell where they come from."""

    def node_ips(self, node):
        return (f"ip-of-{node}",)

    def pod_ips(self, node, uid):
        return (f"ip-of-{uid}-on-{node}",)


RENDERER = Renderer(Surroundings(Hosts(), lambda: NOW, NOW - 60, "v1.37.0"))


def compiled(**spec):
    return compile_stage(stage(**spec))


# Selectors.

SELECTED = {
    "all": {},
    "labels": {"matchLabels": {"app": "web"}},
    "annotations": {"matchAnnotations": {"delay": "2s"}},
    "in": expressions((".status.phase", "In", "Pending", "Running")),
    "not in": expressions((".status.phase", "NotIn", "Pending")),
    "missing is not in": expressions((".status.reason", "NotIn", "Evicted")),
    "error is not in": expressions((".spec.volumes[]", "NotIn", "a")),
    "exists": expressions((".metadata.labels.app", "Exists")),
    "does not exist": expressions((".metadata.deletionTimestamp", "DoesNotExist")),
    "error does not exist": expressions((".spec.volumes[].name", "DoesNotExist")),
    "boolean": expressions((".spec.on", "In", "true")),
    "number": expressions((".spec.replicas", "In", "3")),
    "jq": {"matchExpressions": [{"jq": {"key": ".kind", "operator": "In", "values": ["Pod"]}}]},
    "cel": expressions("self.status.phase == 'Running'", "!has(self.metadata.deletionTimestamp)"),
    "both": {"matchLabels": {"app": "web"}, **expressions((".kind", "Exists"))},
}
REFUSED = {
    "labels": {"matchLabels": {"app": "web", "tier": "x"}},
    "annotations": {"matchAnnotations": {"delay": "3s"}},
    "in": expressions((".status.phase", "In", "Pending")),
    "missing is in": expressions((".status.reason", "In", "Evicted")),
    "not in": expressions((".status.phase", "NotIn", "Running")),
    "null does not exist": expressions((".status.reason", "Exists")),
    "does not exist": expressions((".metadata.name", "DoesNotExist")),
    "false": expressions("self.status.phase == 'Pending'"),
    "not a boolean": expressions("self.status.phase"),
    "no such key": expressions("self.status.reason == 'x'"),
}


@pytest.mark.parametrize("selector", SELECTED.values(), ids=SELECTED)
def test_selected(selector):
    assert compiled(selector=selector).selects(POD, NOW)


@pytest.mark.parametrize("selector", REFUSED.values(), ids=REFUSED)
def test_refused(selector):
    assert not compiled(selector=selector).selects(POD, NOW)


def test_no_selector():
    """A Stage without a selector applies to nothing."""
    spec = stage()
    del spec["spec"]["selector"]
    assert not compile_stage(spec).selects(POD, NOW)


UNCOMPILABLE = {
    "jq": (
        {"selector": expressions((".a[", "Exists"))},
        "jq: .a[: unexpected 'end of the expression' at position 4",
    ),
    "operator": ({"selector": expressions((".a", "Is"))}, 'operator "Is" is not supported'),
    "values": (
        {"selector": expressions((".a", "In"))},
        "for 'in', 'notin' operators, values set can't be empty",
    ),
    "no values": (
        {"selector": expressions((".a", "Exists", "b"))},
        "values set must be empty for exists and does not exist",
    ),
    "empty": ({"selector": {"matchExpressions": [{}]}}, "invalid expression"),
    "cel": ({"selector": expressions("self.(")}, "cel: ERROR: <input>:1:6"),
    "weight": ({"weightFrom": {"jq": {"expression": "("}}}, "jq: ("),
    "delay": ({"delay": {"durationFrom": {"cel": {"expression": "("}}}}, "cel: ERROR"),
    "jitter": ({"delay": {"jitterDurationFrom": {"expressionFrom": "$x"}}}, "jq: $x: variable"),
    "template": (
        {"next": status_patch("a: {{ nope }}")},
        'template: line 1: function "nope" not defined',
    ),
    "patch": ({"steps": [{"patch": {"template": "{{"}}]}, "template: line 1: unclosed action"),
    "apply": ({"steps": [{"apply": {"template": "{{ end }}"}}]}, "template: line 1: unexpected"),
    "version": ({"group": "a/b/c"}, "resourceRef"),
}


@pytest.mark.parametrize(("spec", "message"), UNCOMPILABLE.values(), ids=UNCOMPILABLE)
def test_uncompilable(spec, message):
    with pytest.raises(StageError) as raised:
        compiled(**spec)
    assert message in str(raised.value)


# Delays.


def milliseconds(least=None, most=None):
    return {"durationMilliseconds": least, "jitterDurationMilliseconds": most}


def source(name):
    return {"expressionFrom": f'.metadata.annotations["{name}"]'}


DELAYS = {
    "none": (None, ()),
    "empty": ({}, (0.0,)),
    "fixed": (milliseconds(1500), (1.5,)),
    "range": (milliseconds(1000, 5000), (1.0, 5.0)),
    "jitter below": (milliseconds(5000, 1000), (1.0,)),
    "duration": ({"durationMilliseconds": 1, "durationFrom": source("delay")}, (2.0,)),
    "time": ({"durationFrom": source("until")}, (9.75,)),
    "missing": ({"durationMilliseconds": 1000, "durationFrom": source("x")}, (1.0,)),
    "unreadable": ({"durationMilliseconds": 1000, "durationFrom": source("bad")}, (1.0,)),
    "empty text": ({"durationMilliseconds": 1000, "durationFrom": source("empty")}, ()),
    "jitter": ({"durationMilliseconds": 1000, "jitterDurationFrom": source("delay")}, (1.0, 2.0)),
    "no jitter": ({"durationMilliseconds": 9, "jitterDurationFrom": source("x")}, (0.009,)),
    "cel": ({"durationFrom": {"cel": {"expression": "duration('3s')"}}}, (3.0,)),
    "nanoseconds": ({"durationFrom": {"cel": {"expression": "2000000000"}}}, (2.0,)),
    "jq": ({"durationFrom": {"jq": {"expression": '"4s"'}}}, (4.0,)),
}


@pytest.mark.parametrize(("delay", "seconds"), DELAYS.values(), ids=DELAYS)
def test_delays(delay, seconds):
    assert compiled(delay=delay).delays(POD, NOW) == pytest.approx(seconds)


def test_random_delay():
    """A delay is random within its range, the same one for the same seed, and never negative."""
    ranged, past = (
        compiled(delay=milliseconds(1000, 5000)),
        compiled(delay={"durationFrom": source("until")}),
    )
    delays = [delay_of(ranged, POD, NOW, Random(seed)) for seed in range(100)]
    assert all(1 <= each <= 5 for each in delays)
    assert len(set(delays)) == 100
    assert delay_of(ranged, POD, NOW, Random(7)) == delays[7]
    assert delay_of(past, POD, NOW + 60, Random(0)) == 0


# Weights.

WEIGHTS = {
    "value": ({"weight": 3}, 3),
    "number of 16": ({"weightFrom": source("weight")}, 16),
    "missing": ({"weight": 3, "weightFrom": source("x")}, 3),
    "unreadable": ({"weight": 3, "weightFrom": source("bad")}, None),
    "jq": ({"weightFrom": {"jq": {"expression": ".spec.replicas"}}}, 3),
    "cel": ({"weightFrom": {"cel": {"expression": "self.spec.replicas * 2"}}}, 6),
}


@pytest.mark.parametrize(("spec", "weight"), WEIGHTS.values(), ids=WEIGHTS)
def test_weight(spec, weight):
    assert compiled(**spec).weight(POD, NOW) == weight


BAD = {"weightFrom": source("bad")}
CANDIDATES = {
    "one": ([{"weight": 0}], {"0"}),
    "weighted": ([{"weight": 0}, {"weight": 1}, {"weight": 2}], {"1", "2"}),
    "no weights": ([{}, {}], {"0", "1"}),
    "some unreadable": ([{}, BAD], {"0"}),
    "all unreadable": ([BAD, BAD], {"0", "1"}),
    "none": ([{"selector": {"matchLabels": {"app": "other"}}}], set()),
}


@pytest.mark.parametrize(("specs", "names"), CANDIDATES.values(), ids=CANDIDATES)
def test_candidates(specs, names):
    stages = [compiled(name=str(number), **spec) for number, spec in enumerate(specs)]
    assert {each.name for each, _ in candidates(stages, POD, NOW)} == names
    chosen = [choose(stages, POD, NOW, Random(seed)) for seed in range(30)]
    assert {each.name for each in chosen if each is not None} == names


def test_share():
    """A stage of a weight of 3 is chosen three times as often as one of a weight of 1."""
    stages, rng = [compiled(name="a", weight=1), compiled(name="b", weight=3)], Random(0)
    names = [choose(stages, POD, NOW, rng).name for _ in range(1000)]
    assert 700 < names.count("b") < 800


# Steps.


def actions(**spec):
    return [
        action
        for step in compiled(**spec).steps
        for action in actions_of(step, POD, RENDERER.render, STRATEGIC_MERGE_PATCH)
    ]


NOW_TEXT = "2023-11-14T22:13:20.25Z"
RENDERED = {
    "a: {{ Now }}": NOW_TEXT,
    "a: {{ now }}": NOW_TEXT,
    "a: {{ StartTime }}": "2023-11-14T22:12:20.25Z",
    "a: {{ Version }}": "v1.37.0",
    "a: {{ .metadata.name | Quote }}": "web",
    "a: {{ .spec.replicas }}": 3,
    "a: {{ .spec.replicas | Quote }}": "3",
    "a: {{ .missing | Quote }}": "null",
    "a: {{ NodeIP }}": "ip-of-one",
    "a: {{ NodeName }}": "one",
    "a: {{ NodePort }}": 0,
    "a: {{ PodIP }}": "ip-of-u1-on-one",
    'a: {{ NodeIPWith "two" }}': "ip-of-two",
    'a: {{ PodIPWith .spec.nodeName false .metadata.uid "" "" }}': "ip-of-u1-on-one",
    'a: {{ index (PodIPsWith .spec.nodeName true "u" "" "") 0 }}': "ip-of-one",
    "a:\n{{ YAML .metadata.labels 1 }}": {"app": "web"},
    "a: {{ (index NodeConditions 0).type }}": "Ready",
    "a: {{ default 1 .missing }}": 1,
}


@pytest.mark.parametrize(("template", "value"), RENDERED.items())
def test_rendered(template, value):
    (action,) = actions(next=status_patch(template))
    assert action == PatchObject({"status": {"a": value}}, STRATEGIC_MERGE_PATCH, "status")


def test_next():
    """What `next` says happens in the order of event, finalizers, patches and deletion."""
    following = {
        "delete": True,
        "event": {"type": "Warning", "reason": "Bad", "message": "It went bad."},
        "finalizers": {"add": [{"value": "a/b"}]},
        "patches": [{"root": "spec", "template": "{a: 1}", "type": "merge"}],
    }
    assert actions(next=following) == [
        ReportEvent("Warning", "Bad", "It went bad."),
        PatchObject([{"op": "add", "path": "/metadata/finalizers", "value": ["a/b"]}], JSON_PATCH),
        PatchObject({"spec": {"a": 1}}, MERGE_PATCH),
        DeleteObject(),
    ]


def test_status_patch():
    """The older form of a patch: its subresource and its user."""
    following = {
        **status_patch("{a: 1}"),
        "statusSubresource": "scale",
        "statusPatchAs": {"username": "eve"},
    }
    assert actions(next=following) == [
        PatchObject({"status": {"a": 1}}, STRATEGIC_MERGE_PATCH, "scale", "eve")
    ]


def test_steps():
    """Steps are done in their order, and `next` does not count beside them."""
    other = "{apiVersion: v1, kind: ConfigMap, metadata: {name: {{ .metadata.name }}}}"
    steps = [
        {
            "patch": {
                "type": "json",
                "root": "metadata",
                "template": "[{op: add, path: /x, value: 1}]",
            }
        },
        {"apply": {"template": other, "impersonation": {"username": "eve"}}},
        {"apply": {"template": other, "type": "merge", "subresource": "status"}},
        {"event": {"reason": "Done"}},
    ]
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web"}}
    assert actions(steps=steps, next={"delete": True}) == [
        PatchObject([{"op": "add", "path": "/metadata/x", "value": 1}], JSON_PATCH),
        ApplyObject(obj, APPLY, user="eve"),
        ApplyObject(obj, MERGE_PATCH, "status"),
        ReportEvent("", "Done", ""),
    ]


UNRENDERABLE = {
    "field": (status_patch("{{ .missing.field }}"), "nil pointer evaluating interface {}.field"),
    "yaml": (status_patch("a: [1"), "the output is not YAML"),
    "json patch": (
        {"patches": [{"type": "json", "root": "spec", "template": "a: 1"}]},
        "a JSON Patch is not a list",
    ),
}


@pytest.mark.parametrize(("following", "message"), UNRENDERABLE.values(), ids=UNRENDERABLE)
def test_unrenderable(following, message):
    with pytest.raises(TemplateError) as raised:
        actions(next=following)
    assert message in str(raised.value)


@pytest.mark.parametrize("template", ["a: 1", "[1]", "{apiVersion: v1, kind: Pod}", ""])
def test_not_an_object(template):
    with pytest.raises(TemplateError, match="template must include"):
        actions(steps=[{"apply": {"template": template}}])


FINALIZERS = {
    "add": (["a"], {"add": ["b"]}, ["a", "b"]),
    "add the first": ([], {"add": ["a", "b"]}, ["a", "b"]),
    "add again": (["a"], {"add": ["a"]}, ["a"]),
    "remove": (["a", "b", "c"], {"remove": ["a", "c"]}, ["b"]),
    "remove others": (["a"], {"remove": ["b"]}, ["a"]),
    "remove all": (["a"], {"remove": ["a"]}, None),
    "empty": (["a", "b"], {"empty": True}, None),
    "nothing to empty": ([], {"empty": True}, []),
    "replace": (["a"], {"empty": True, "add": ["b"]}, ["b"]),
}


@pytest.mark.parametrize(("before", "change", "after"), FINALIZERS.values(), ids=FINALIZERS)
def test_finalizers(before, change, after):
    change = {
        name: value if value is True else [{"value": each} for each in value]
        for name, value in change.items()
    }
    operations = finalizer_operations(before, change)
    obj = {"metadata": {"finalizers": before}}
    assert json_patch.apply(obj, operations)["metadata"].get("finalizers") == after
