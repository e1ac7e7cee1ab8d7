"""How many replicas one metric asks for: tables of usage, targets and the states of pods."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapiserver.controllers.workloads.horizontal_pod_autoscaler.replica_calculator import (
    MAX_INT32,
    MAX_INT64,
    MetricsError,
    PodMetric,
    ScaledPods,
    Tolerances,
    Usage,
    Utilization,
    average_replicas,
    group_pods,
    utilization_replicas,
    value_per_pod_replicas,
    value_replicas,
)
from tests.times import text_of

NOW = 1_700_000_000.0
HOUR = 3600
DAMPED = Tolerances(0.1, 0.1)


def pod(index, ready=True, phase="Running", started=2 * HOUR, changed=HOUR, deleted=False, **spec):
    """A pod that started and changed its readiness so many seconds ago. Each of its two containers
    requests one CPU."""
    metadata = {"name": f"web-{index}", "namespace": "shop"}
    if deleted:
        metadata["deletionTimestamp"] = text_of(NOW)
    condition = {
        "type": "Ready",
        "status": "True" if ready else "False",
        "lastTransitionTime": text_of(NOW - changed),
    }
    status = {"phase": phase, "conditions": [condition], "startTime": text_of(NOW - started)}
    containers = [
        {"name": name, "resources": {"requests": {"cpu": "1"}}} for name in ("app", "side")
    ]
    return {"metadata": metadata, "spec": {"containers": containers} | spec, "status": status}


def pods(*marks):
    """Pods by marks: `+` ready, `-` unready, `h` hot, `H` hot and unready, `f` failed, `p` pending,
    `d` being deleted."""
    hot = {"started": 60, "changed": 30}
    kinds = {
        "+": {},
        "-": {"ready": False, "changed": 2 * HOUR},
        "h": hot,
        "H": hot | {"ready": False},
        "f": {"ready": False, "phase": "Failed"},
        "p": {"ready": False, "phase": "Pending"},
        "d": {"deleted": True},
    }
    return [pod(index, **kinds[mark]) for index, mark in enumerate("".join(marks))]


def scaled(pods, replicas, tolerances=DAMPED, status_replicas=None):
    return ScaledPods(
        pods=pods,
        spec_replicas=replicas,
        status_replicas=replicas if status_replicas is None else status_replicas,
        tolerances=tolerances,
        cpu_initialization_seconds=120,
        initial_readiness_seconds=10,
        now=NOW,
    )


def metrics(*values):
    """The metrics of the first pods; None leaves a pod out."""
    return {
        f"web-{index}": PodMetric(value, NOW, 60)
        for index, value in enumerate(values)
        if value is not None
    }


@pytest.mark.parametrize(
    ("marks", "replicas", "usage", "target", "expected"),
    [
        # Each pod requests two CPUs.
        ("+++", 3, (600, 1000, 1400), 30, (5, 50, 1000)),
        ("+++", 3, (1200, 1300, 1000), 60, (3, 58, 1166)),
        ("+++++", 5, (200, 600, 1000, 500, 500), 50, (3, 28, 560)),
        # Unready and hot pods damp a scale-up, and do not take part in a scale-down.
        ("-++", 3, (600, 1000, 1400), 30, (4, 60, 1200)),
        ("h++", 3, (600, 1000, 1400), 30, (4, 60, 1200)),
        ("+--", 3, (800, 1000, 1400), 30, (3, 40, 800)),
        ("+HH", 3, (800, 1000, 1400), 30, (3, 40, 800)),
        ("+++--", 5, (200, 600, 1000, 500, 500), 50, (2, 30, 600)),
        ("+++hh", 5, (200, 600, 1000, 500, 500), 50, (2, 30, 600)),
        ("+pppp", 5, (200,), 50, (1, 10, 200)),
        # Failed pods and those that are being deleted do not count.
        ("++ff", 2, (1000, 1400), 30, (4, 60, 1200)),
        ("++dd", 2, (1000, 1400), 30, (4, 60, 1200)),
        ("+++++dd", 5, (200, 600, 1000, 500, 500), 50, (3, 28, 560)),
        # Missing metrics damp either direction, and do not turn it.
        ("++++", 4, (None, 1000, 1900, 1700), 24, (10, 76, 1533)),
        ("++++", 4, (400, 0, 0, None), 60, (2, 6, 133)),
        ("++", 2, (2000, None), 100, (2, 100, 2000)),
        ("++", 2, (1900, None), 100, (2, 95, 1900)),
        ("++", 2, (2000, None), 33, (4, 100, 2000)),
        ("++", 2, (None, 200), 15, (2, 10, 200)),
        ("+-+", 3, (900, None, None), 50, (3, 45, 900)),
        ("+-+", 3, (200, None, 900), 100, (2, 27, 550)),
    ],
)
def test_utilization(marks, replicas, usage, target, expected):
    proposal = utilization_replicas(
        scaled(pods(marks), replicas), metrics(*usage), target, resource="cpu"
    )
    assert proposal == Utilization(*expected)


@pytest.mark.parametrize(
    ("tolerances", "usage", "replicas"),
    [
        ((0.1, 0.1), 1100, 10),
        ((0.1, 0.1), 1120, 12),
        ((0.1, 0.1), 900, 10),
        ((0.1, 0.1), 880, 9),
        ((0.1, 0.0), 1020, 11),
        ((0.0, 0.1), 1020, 10),
        ((0.0, 0.1), 980, 10),
        ((0.5, 0.5), 500, 10),
        ((0.5, 0.5), 1500, 10),
        ((0.5, 0.5), 1520, 16),
    ],
)
def test_tolerance(tolerances, usage, replicas):
    several = scaled(pods("+" * 10), 10, Tolerances(*tolerances))
    assert utilization_replicas(several, metrics(*[usage] * 10), 50, "cpu").replicas == replicas


def test_one_container():
    """Only what the container requests counts, whose metrics these are."""
    proposal = utilization_replicas(
        scaled(pods("+++"), 3), metrics(300, 500, 700), 30, "cpu", container="side"
    )
    assert proposal == Utilization(5, 50, 500)


def _without_request(**spec):
    return pod(0, containers=[{"name": "app"}], **spec)


@pytest.mark.parametrize(
    ("one", "container", "problem"),
    [
        (_without_request(), "", "missing request for cpu in container app of Pod web-0"),
        (_without_request(), "app", "missing request for cpu in container app of Pod web-0"),
        (pod(0), "other", "container other not found in Pod web-0"),
        (
            _without_request(resources={"requests": {"memory": "1Gi"}}),
            "",
            "missing pod-level request for cpu in Pod web-0",
        ),
        (
            pod(0, initContainers=[{"name": "proxy", "restartPolicy": "Always"}]),
            "",
            "missing request for cpu in container proxy of Pod web-0",
        ),
    ],
)
def test_missing_request(one, container, problem):
    with pytest.raises(MetricsError, match=f"^{problem}$"):
        utilization_replicas(scaled([one], 1), metrics(500), 50, "cpu", container)


@pytest.mark.parametrize(
    ("spec", "percent"),
    [
        ({}, 50),
        ({"resources": {"requests": {"cpu": "4"}}}, 25),
        ({"initContainers": [{"name": "init", "resources": {"requests": {"cpu": "8"}}}]}, 50),
        (
            {
                "initContainers": [
                    {
                        "name": "proxy",
                        "restartPolicy": "Always",
                        "resources": {"requests": {"cpu": "2"}},
                    }
                ]
            },
            25,
        ),
    ],
)
def test_requests(spec, percent):
    scaled_pod = scaled([pod(0, **spec)], 1)
    assert utilization_replicas(scaled_pod, metrics(1000), 50, "cpu").percent == percent


@pytest.mark.parametrize(
    ("marks", "usage", "problem"),
    [
        ("", (), "no pods returned by selector while calculating replica count"),
        ("-", (500,), "did not receive metrics for targeted pods (pods might be unready)"),
        ("+", (), "did not receive metrics for targeted pods (pods might be unready)"),
    ],
)
def test_nothing_to_measure(marks, usage, problem):
    for calculate in (utilization_replicas, average_replicas):
        with pytest.raises(MetricsError) as raised:
            calculate(scaled(pods(marks), 1), metrics(*usage), 50, "cpu")
        assert str(raised.value) == problem


def test_metrics_of_other_pods():
    others = {"other": PodMetric(500, NOW, 60)}
    with pytest.raises(MetricsError, match="no metrics returned matched known pods"):
        utilization_replicas(scaled(pods("+"), 1), others, 50, "cpu")


@pytest.mark.parametrize(
    ("marks", "replicas", "usage", "target", "expected"),
    [
        ("+++", 3, (20000, 10000, 30000), 15000, (4, 20000)),
        ("++++", 4, (15000, 15000, 15000, 15000), 15000, (4, 15000)),
        ("+++++", 5, (12000, 12000, 12000, 12000, 12000), 20000, (3, 12000)),
        # Readiness does not decide about metrics other than CPU.
        ("++H", 3, (50000, 10000, 30000), 15000, (6, 30000)),
        ("H+H", 3, (50000, 15000, 30000), 15000, (7, 31666)),
        ("+p+", 3, (50000, 15000, 30000), 15000, (6, 40000)),
        ("+++", 3, (10000, None, 30000), 15000, (3, 20000)),
        ("+++", 3, (5000, None, 5000), 15000, (2, 5000)),
    ],
)
def test_average(marks, replicas, usage, target, expected):
    proposal = average_replicas(scaled(pods(marks), replicas), metrics(*usage), target)
    assert proposal == Usage(*expected)


@pytest.mark.parametrize(
    ("marks", "replicas", "usage", "target", "expected"),
    [
        ("+++", 3, 20000, 15000, 4),
        ("++-", 3, 20000, 15000, 3),
        ("+++--", 5, 12000, 20000, 2),
        ("+++", 3, 15000, 15000, 3),
        ("+++", 3, 16000, 15000, 3),
        ("", 0, 14000, 15000, 1),
        ("", 0, 40000, 15000, 3),
        ("", 0, 0, 15000, 0),
        ("+++", 3, MAX_INT64, 1, MAX_INT32),
    ],
)
def test_value(marks, replicas, usage, target, expected):
    assert value_replicas(scaled(pods(marks), replicas), usage, target) == expected


def test_value_without_pods():
    with pytest.raises(MetricsError, match="unable to calculate ready pods: no pods returned"):
        value_replicas(scaled([], 3), 20000, 15000)


@pytest.mark.parametrize(
    ("replicas", "tolerances", "usage", "target", "expected"),
    [
        (3, (0.1, 0.1), 8600, 2150, (4, 2867)),
        (5, (0.1, 0.1), 8600, 2867, (3, 1720)),
        (3, (0.1, 0.1), 8600, 2900, (3, 2867)),
        (3, (0.1, 0.01), 8600, 2800, (4, 2867)),
        (0, (0.1, 0.1), 8600, 2800, (4, 8600)),
        (0, (0.1, 0.1), 0, 2800, (0, 0)),
        (1, (0.1, 0.1), MAX_INT64, 1, (MAX_INT32, MAX_INT64)),
        (1, (0.1, 0.1), MAX_INT64, MAX_INT64, (1, MAX_INT64)),
    ],
)
def test_value_per_pod(replicas, tolerances, usage, target, expected):
    several = scaled([], 99, Tolerances(*tolerances), status_replicas=replicas)
    assert value_per_pod_replicas(several, usage, target) == Usage(*expected)


@pytest.mark.parametrize(
    ("started", "changed", "ready", "measured", "is_unready"),
    [
        # Within the initialization period a pod must be ready for a whole window.
        (60, 50, True, 0, True),
        (100, 90, True, 0, False),
        (100, 90, True, 40, True),
        (100, 90, False, 0, True),
        # Later only a pod that has never been ready does not count.
        (HOUR, HOUR - 5, False, 0, True),
        (HOUR, HOUR - 15, False, 0, False),
        (HOUR, HOUR - 5, True, 0, False),
    ],
)
def test_pods_that_start(started, changed, ready, measured, is_unready):
    single_pod = pod(0, ready=ready, started=started, changed=changed)
    metric = {"web-0": PodMetric(1, NOW - measured, 60)}
    groups = group_pods(scaled([single_pod], 1), metric, "cpu")
    assert (groups.unready == {"web-0"}) is is_unready
    assert group_pods(scaled([single_pod], 1), metric, "memory").ready_count == 1


def test_pod_without_status():
    single_pod = pod(0)
    single_pod["status"] = {"phase": "Running"}
    assert group_pods(scaled([single_pod], 1), metrics(1), "cpu").unready == {"web-0"}


USAGES = st.lists(st.one_of(st.none(), st.integers(0, 10_000)), min_size=1, max_size=8)


@given(USAGES, st.text("+-hHfpd", min_size=8, max_size=8), st.integers(1, 5000))
def test_direction(usage, marks, target):
    """Pods that do not count damp a change: it never turns, and never exceeds that of the pods
    that are measured."""
    marks = marks[: len(usage)]
    several = scaled(pods(marks), len(usage))
    try:
        proposal = average_replicas(several, metrics(*usage), target, "cpu")
    except MetricsError:
        return
    assert proposal.replicas >= 0
    ratio = proposal.value / target
    if proposal.replicas > len(usage):
        assert ratio > 1.1
        assert proposal.replicas <= -(-len(usage) * proposal.value // target)
    if DAMPED.cover(ratio):
        assert proposal.replicas == len(usage)
