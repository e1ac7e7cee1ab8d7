"""What the status of a PodDisruptionBudget says."""

from __future__ import annotations

import pytest

from kapiserver.controllers.policy.disruption_status import (
    Expectation,
    expectation,
    failed_evictions,
    failed_status,
    needs_scale,
    new_status,
    recent_evictions,
    seconds_to_recheck,
    seconds_to_stale,
    unmanaged,
    without_disruption,
)
from tests.times import text_of

NOW = 1_700_000_000


@pytest.mark.parametrize(
    ("spec", "pods", "scales", "expected"),
    [
        ({"minAvailable": 2}, 5, [], (5, 2)),
        ({}, 5, [], (5, 0)),
        ({"minAvailable": "50%"}, 1, [3], (3, 2)),
        ({"minAvailable": "050%"}, 1, [3, 4], (7, 4)),
        ({"maxUnavailable": 1}, 1, [3], (3, 2)),
        ({"maxUnavailable": 0}, 1, [3], (3, 3)),
        ({"maxUnavailable": 5}, 1, [3], (3, 0)),
        ({"maxUnavailable": "34%"}, 1, [3], (3, 1)),
        ({"maxUnavailable": "0%"}, 1, [3], (3, 3)),
    ],
)
def test_expectation(spec, pods, scales, expected):
    """Percentages are rounded up."""
    assert expectation({"spec": spec}, pods, scales) == expected
    assert needs_scale({"spec": spec}) is bool(scales)


def pod(name, ready="True", deleted=False, owner=True):
    metadata = {"name": name, "generation": 3}
    if deleted:
        metadata["deletionTimestamp"] = text_of(NOW)
    if owner:
        metadata["ownerReferences"] = [{"kind": "ReplicaSet", "controller": True, "uid": "1"}]
    return {"metadata": metadata, "status": {"conditions": [{"type": "Ready", "status": ready}]}}


def budget(**status):
    return {"metadata": {"generation": 2}, "status": status}


@pytest.mark.parametrize(
    ("pods", "healthy", "allowed"),
    [
        ([], 0, 0),
        ([pod("a"), pod("b"), pod("c")], 3, 2),
        ([pod("a"), pod("b", ready="False"), pod("c", deleted=True)], 1, 0),
    ],
)
def test_status(pods, healthy, allowed):
    status = new_status(budget(), pods, Expectation(3, 1), NOW)
    assert (status["currentHealthy"], status["disruptionsAllowed"]) == (healthy, allowed)
    (condition,) = status["conditions"]
    assert condition == {
        "type": "DisruptionAllowed",
        "status": "True" if allowed else "False",
        "observedGeneration": 2,
        "lastTransitionTime": text_of(NOW),
        "reason": "SufficientPods" if allowed else "InsufficientPods",
        "message": "",
    }


def test_no_expected_pods():
    """Nothing may be disrupted before the first pod is counted."""
    assert new_status(budget(), [pod("a")], Expectation(0, 0), NOW)["disruptionsAllowed"] == 0


def test_conditions():
    """The time of a condition changes with its status alone, and others stay."""
    other = {"type": "Other", "status": "True"}
    old = {"type": "DisruptionAllowed", "status": "False", "lastTransitionTime": "before"}
    before = budget(conditions=[old, other], currentHealthy=4, disruptionsAllowed=1)
    status = new_status(before, [], Expectation(3, 1), NOW)
    assert status["conditions"][0] == other
    assert status["conditions"][1]["lastTransitionTime"] == "before"
    failed = failed_status(before, "why", NOW)
    assert (failed["currentHealthy"], failed["disruptionsAllowed"]) == (4, 0)
    assert failed["conditions"][1] == {
        "type": "DisruptionAllowed",
        "status": "False",
        "observedGeneration": 0,
        "lastTransitionTime": "before",
        "reason": "SyncFailed",
        "message": "why",
    }


def test_evictions():
    """An evicted pod does not count for two minutes, or until it is being deleted."""
    times = {"new": NOW - 100, "old": NOW - 120, "deleted": NOW - 1, "absent": NOW - 1}
    evictions = {name: text_of(time) for name, time in times.items()}
    pods = [pod("new"), pod("old"), pod("deleted", deleted=True), pod("other")]
    before = budget(disruptedPods=evictions)
    assert recent_evictions(before, pods, NOW) == {"new": evictions["new"]}
    assert failed_evictions(before, pods, NOW) == ["old"]
    status = new_status(before, pods, Expectation(4, 1), NOW)
    assert (status["currentHealthy"], status["disruptionsAllowed"]) == (2, 1)
    assert seconds_to_recheck(status, NOW) == 20
    assert seconds_to_recheck({}, NOW) is None


def test_unmanaged():
    assert unmanaged([pod("a"), pod("b", owner=False)]) == ["b"]


def target(status="True", reason="PreemptionByScheduler", since=NOW - 50, phase="Running", **more):
    condition = {"type": "DisruptionTarget", "status": status, "reason": reason}
    condition["lastTransitionTime"] = text_of(since)
    return {
        "metadata": {"name": "a", "generation": 3, **more},
        "status": {"phase": phase, "conditions": [condition, {"type": "Ready", "status": "True"}]},
    }


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        ({}, 70),
        ({"since": NOW - 120}, 0),
        ({"since": NOW - 500}, 0),
        ({"status": "False"}, None),
        ({"reason": "TerminationByKubelet"}, None),
        ({"phase": "Failed"}, None),
        ({"deletionTimestamp": text_of(NOW)}, None),
    ],
)
def test_stale_conditions(fields, seconds):
    assert seconds_to_stale(target(**fields), NOW) == seconds
    changed = without_disruption(target(**fields), NOW)
    if seconds != 0:
        assert changed == target(**fields)
    else:
        assert changed["status"]["conditions"] == [
            {
                "type": "DisruptionTarget",
                "status": "False",
                "observedGeneration": 3,
                "lastTransitionTime": text_of(NOW),
            },
            {"type": "Ready", "status": "True"},
        ]
