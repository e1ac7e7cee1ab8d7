"""When pods leave a node with NoExecute taints."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapiserver.controllers.nodes.taint_eviction import (
    Eviction,
    disruption_patch,
    next_eviction,
    no_execute_taints,
    tolerated_seconds,
)

NOW = 1_700_000_000.0


def taint(key, effect="NoExecute", value=""):
    return {"key": key, "effect": effect, "value": value}


def toleration(key, seconds=None, **fields):
    limit = {} if seconds is None else {"tolerationSeconds": seconds}
    return {"key": key, "operator": "Exists", "effect": "NoExecute", **limit, **fields}


@pytest.mark.parametrize(
    ("tolerations", "taints", "seconds"),
    [
        ([], [], None),
        ([], ["a"], 0),
        ([toleration("a")], ["a"], None),
        ([toleration("a", 300)], ["a"], 300),
        ([toleration("a", 300), toleration("b", 20)], ["a", "b"], 20),
        ([toleration("a", 300), toleration("b")], ["a", "b"], 300),
        ([toleration("a", 300)], ["a", "b"], 0),
        ([toleration("a", 300), toleration("a", 20)], ["a"], 300),
        ([toleration("a", -5)], ["a"], 0),
        ([toleration("")], ["a", "b"], None),
        ([toleration("a", operator="Equal", value="x")], ["a"], 0),
    ],
)
def test_tolerated_seconds(tolerations, taints, seconds):
    assert tolerated_seconds(tolerations, [taint(key) for key in taints]) == seconds


def pod_of(tolerations=()):
    return {
        "metadata": {"name": "web", "uid": "1", "generation": 2},
        "spec": {"tolerations": list(tolerations)},
    }


def test_planned_eviction():
    """A plan keeps its time while the pod tolerates all taints, and is dropped with them."""
    pod = pod_of([toleration("a", 300), toleration("b", 10)])
    first = next_eviction(pod, [taint("a")], None, NOW)
    assert first == Eviction("1", NOW, NOW + 300)
    assert next_eviction(pod, [taint("a"), taint("b")], first, NOW + 5) == first
    assert next_eviction(pod, [taint("b")], first, NOW + 5) == first
    assert next_eviction(pod, [], first, NOW + 5) is None
    assert next_eviction(pod, [taint("c")], first, NOW + 5) == Eviction("1", NOW + 5, NOW + 5)


def test_taints_that_evict():
    node = {"spec": {"taints": [taint("a"), taint("b", "NoSchedule")]}}
    assert no_execute_taints(node) == [taint("a")]
    assert no_execute_taints({}) == []


def test_condition():
    (condition,) = disruption_patch(pod_of(), "DeletionByTaintManager", "why", NOW)["status"][
        "conditions"
    ]
    assert condition == {
        "type": "DisruptionTarget",
        "observedGeneration": 2,
        "status": "True",
        "reason": "DeletionByTaintManager",
        "message": "why",
        "lastTransitionTime": "2023-11-14T22:13:20Z",
    }


KEYS = st.sampled_from("abc")
CHANGES = st.lists(st.tuples(st.integers(0, 60), st.sets(KEYS)), min_size=1, max_size=12)
"""Seconds that pass, and the taints after them."""
TOLERATIONS = st.dictionaries(KEYS, st.one_of(st.none(), st.integers(1, 100)))


@given(TOLERATIONS, CHANGES)
def test_timing(tolerations, changes):
    """A simple model: the pod leaves when a taint is not tolerated, or when the seconds are over
    that it tolerated the taints which it had when it last began to tolerate some for seconds."""
    pod = pod_of([toleration(key, seconds) for key, seconds in tolerations.items()])
    planned, now, ended = None, NOW, None
    model_due, model_ended = None, None
    for seconds, keys in [*changes, (1000, set())]:
        now += seconds
        if ended is None and planned is not None and planned.due <= now:
            ended = planned.due
        if model_ended is None and model_due is not None and model_due <= now:
            model_ended = model_due
        if ended is None:
            taints = [taint(key) for key in sorted(keys)]
            planned = next_eviction(pod, taints, planned, now)
        limits = [tolerations[key] for key in keys if tolerations.get(key)]
        if model_ended is not None:
            continue
        if not keys <= set(tolerations):
            model_due = now
        elif not limits:
            model_due = None
        elif model_due is None:
            model_due = now + min(limits)
    assert ended == model_ended
