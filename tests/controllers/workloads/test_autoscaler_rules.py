"""What limits a change of replicas: tables of windows, policies and bounds."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapiserver.controllers.workloads.horizontal_pod_autoscaler.scaling_rules import (
    Bounds,
    ScalingHistory,
    down_limit,
    limited,
    stabilized,
    up_limit,
)
from tests.controllers.workloads.autoscaling import DOWN, NOW, UP, WINDOW, history


def rules(base, **changes):
    return copy.deepcopy(base) | changes


def policy(type_, value, period=60):
    return {"type": type_, "value": value, "periodSeconds": period}


@pytest.mark.parametrize(
    ("current", "desired", "minimum", "maximum", "expected"),
    [
        (7, 10, 6, 9, (9, "TooManyReplicas")),
        (7, 10, 6, 8, (8, "TooManyReplicas")),
        (1, 100, 1, 200, (4, "ScaleUpLimit")),
        (10, 100, 1, 200, (20, "ScaleUpLimit")),
        (10, 3, 5, 20, (5, "TooFewReplicas")),
        (10, 0, 0, 20, (0, "DesiredWithinRange")),
        (10, 12, 5, 20, (12, "DesiredWithinRange")),
        (2, 100, 1, 4, (4, "TooManyReplicas")),
    ],
)
def test_limits_without_behavior(current, desired, minimum, maximum, expected):
    verdict = limited(ScalingHistory(), None, Bounds(current, minimum, maximum), desired, NOW)
    assert (verdict.replicas, verdict.reason) == expected


@pytest.mark.parametrize(
    ("current", "past", "policies", "select", "limit"),
    [
        (2, {}, [("Percent", 0)], "Max", 2),
        (8, {}, [("Percent", 150)], "Max", 20),
        (1, {}, [("Percent", 10)], "Max", 2),
        (1, {}, [("Pods", 10)], "Max", 11),
        (2, {}, [("Percent", 200), ("Pods", 3)], "Max", 6),
        (2, {}, [("Percent", 200), ("Pods", 3)], "Min", 5),
        (2, {}, [("Percent", 200), ("Pods", 3)], "Disabled", 2),
        # What was added in the period counts, what was removed too.
        (6, {"ups": [(4, 30)]}, [("Pods", 5)], "Max", 7),
        (6, {"ups": [(4, 61)]}, [("Pods", 5)], "Max", 11),
        (6, {"ups": [(4, 30)], "downs": [(1, 20)]}, [("Pods", 5)], "Max", 8),
        (9, {"ups": [(6, 30)]}, [("Percent", 100)], "Max", 6),
    ],
)
def test_up_limit(current, past, policies, select, limit):
    scale_up = rules(UP, selectPolicy=select, policies=[policy(*each) for each in policies])
    assert up_limit(history(**past), scale_up, current, NOW) == limit


@pytest.mark.parametrize(
    ("current", "past", "policies", "select", "limit"),
    [
        (5, {}, [("Percent", 100)], "Max", 0),
        (5, {}, [("Percent", 50)], "Max", 2),
        (5, {}, [("Pods", 2)], "Max", 3),
        (5, {}, [("Percent", 60), ("Pods", 2)], "Max", 2),
        (5, {}, [("Percent", 60), ("Pods", 2)], "Min", 3),
        (5, {}, [("Percent", 60), ("Pods", 2)], "Disabled", 5),
        (5, {"downs": [(3, 30)]}, [("Pods", 4)], "Max", 4),
        (5, {"downs": [(3, 61)]}, [("Pods", 4)], "Max", 1),
        (5, {"downs": [(3, 30)], "ups": [(1, 5)]}, [("Pods", 4)], "Max", 3),
    ],
)
def test_down_limit(current, past, policies, select, limit):
    scale_down = rules(DOWN, selectPolicy=select, policies=[policy(*each) for each in policies])
    assert down_limit(history(**past), scale_down, current, NOW) == limit


@pytest.mark.parametrize(
    ("desired", "past", "expected"),
    [
        (5, [], (5, "ReadyForNewScale")),
        (5, [(8, 299)], (8, "ScaleDownStabilized")),
        (5, [(8, 301)], (5, "ReadyForNewScale")),
        (5, [(3, 10)], (5, "ReadyForNewScale")),
        (5, [(8, 200), (9, 10)], (9, "ScaleDownStabilized")),
    ],
)
def test_stabilization_without_behavior(desired, past, expected):
    verdict, after = stabilized(
        history(past), None, Bounds(10, 1, 20), desired, downscale_window=WINDOW, now=NOW
    )
    assert (verdict.replicas, verdict.reason) == expected
    assert after.recommendations[-1] == (desired, NOW)
    assert all(each.time >= NOW - WINDOW for each in after.recommendations)


@pytest.mark.parametrize(
    ("desired", "up", "down", "past", "expected"),
    [
        (12, 0, 300, [(5, 10)], (12, "ReadyForNewScale")),
        (12, 60, 300, [(11, 10)], (11, "ScaleUpStabilized")),
        (12, 60, 300, [(5, 10)], (10, "ScaleUpStabilized")),
        (12, 60, 300, [(5, 70)], (12, "ReadyForNewScale")),
        (4, 0, 300, [(8, 200)], (8, "ScaleDownStabilized")),
        (4, 0, 300, [(14, 200)], (10, "ScaleDownStabilized")),
        (4, 0, 0, [(8, 200)], (4, "ReadyForNewScale")),
        (4, 0, None, [(8, 200)], (8, "ScaleDownStabilized")),
        (4, 0, None, [(8, 301)], (4, "ReadyForNewScale")),
    ],
)
def test_stabilization(desired, up, down, past, expected):
    behavior = {
        "scaleUp": rules(UP, stabilizationWindowSeconds=up),
        "scaleDown": rules(DOWN, stabilizationWindowSeconds=down),
    }
    verdict, _ = stabilized(history(past), behavior, Bounds(10, 1, 20), desired, WINDOW, NOW)
    assert (verdict.replicas, verdict.reason) == expected


@pytest.mark.parametrize(
    ("current", "desired", "past", "expected"),
    [
        (3, 20, {}, (7, "ScaleUpLimit")),
        (3, 20, {"ups": [(4, 10)]}, (3, "ScaleUpLimit")),
        (9, 20, {}, (10, "TooManyReplicas")),
        (5, 6, {}, (6, "DesiredWithinRange")),
        (5, 1, {}, (2, "TooFewReplicas")),
        (8, 1, {"ups": [(1, 1)], "downs": [(9, 1)]}, (2, "TooFewReplicas")),
        (5, 5, {}, (5, "DesiredWithinRange")),
    ],
)
def test_limits_with_behavior(current, desired, past, expected):
    behavior = {"scaleUp": UP, "scaleDown": DOWN}
    verdict = limited(history(**past), behavior, Bounds(current, 2, 10), desired, NOW)
    assert (verdict.replicas, verdict.reason) == expected


def test_history_forgets():
    """A history keeps what a window or policy still needs."""
    behavior = {"scaleUp": UP, "scaleDown": rules(DOWN, policies=[policy("Pods", 1, 60)])}
    past = history(ups=[(1, 61), (2, 59)], downs=[(3, 61)])
    up = past.scaled(behavior, 3, 8, NOW)
    assert [each.change for each in up.ups] == [2, 5]
    assert not up.downs
    down = past.scaled(behavior, 8, 3, NOW)
    assert [each.change for each in down.downs] == [5]
    assert past.scaled(None, 3, 8, NOW) is past


STEPS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 200)), min_size=1, max_size=30)


@given(STEPS, st.integers(1, 5), st.sampled_from([None, 0, 30]), st.integers(1, 6))
def test_rate(steps, minimum, window, pods):
    """Whatever is proposed, replicas never differ by more than `pods` from those a minute ago."""
    behavior = {
        "scaleUp": rules(UP, policies=[policy("Pods", pods)]),
        "scaleDown": rules(
            DOWN, policies=[policy("Pods", pods)], stabilizationWindowSeconds=window
        ),
    }
    past, now, current, sizes = ScalingHistory(), NOW, 10, []
    for seconds, proposed in steps:
        now += seconds
        bounds = Bounds(current, minimum, 100)
        stable, past = stabilized(past, behavior, bounds, proposed, WINDOW, now)
        new = limited(past, behavior, bounds, stable.replicas, now).replicas
        assert minimum <= new <= 100
        if new != current:
            sizes.append((now, current))
            start = next(size for time, size in sizes if time > now - 60)
            assert abs(new - start) <= pods
            past = past.scaled(behavior, current, new, now)
            current = new
