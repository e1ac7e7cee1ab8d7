"""What a reconcile of an autoscaler decides: tables of metrics, and plans with their conditions."""

from __future__ import annotations

import copy

import pytest

from kapiserver.controllers.workloads.horizontal_pod_autoscaler.metric_sources import (
    Failure,
    Proposal,
    metric_status,
    propose,
)
from kapiserver.controllers.workloads.horizontal_pod_autoscaler.plan import (
    Observation,
    SelectorProblem,
    needs_metrics,
    not_rescaled,
    plan_autoscaler,
    rescaled,
    without_scale,
)
from kapiserver.controllers.workloads.horizontal_pod_autoscaler.replica_calculator import (
    MetricsError,
    PodMetric,
    ScaledPods,
    Tolerances,
)
from kapiserver.controllers.workloads.horizontal_pod_autoscaler.scaling_rules import ScalingHistory
from tests.controllers.workloads.autoscaling import DOWN, NOW, UP, WINDOW, history
from tests.times import text_of

CPU = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
}
QUEUE = {
    "type": "External",
    "external": {"metric": {"name": "queue"}, "target": {"type": "Value", "value": "10"}},
}


def an_autoscaler(*metrics, status=None, minimum=1, maximum=10, **spec):
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    return {
        "metadata": {"name": "web", "namespace": "shop", "generation": 2},
        "spec": {
            "scaleTargetRef": target,
            "minReplicas": minimum,
            "maxReplicas": maximum,
            "metrics": list(metrics or [CPU]),
            **spec,
        },
        "status": status or {},
    }


def a_pod(index):
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": text_of(NOW - 3600)}
    return {
        "metadata": {"name": f"web-{index}"},
        "spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "1"}}}]},
        "status": {
            "phase": "Running",
            "startTime": text_of(NOW - 7200),
            "conditions": [ready],
        },
    }


def cpu(*values):
    return {f"web-{index}": PodMetric(value, NOW, 60) for index, value in enumerate(values)}


def scaled(replicas):
    return ScaledPods(
        pods=[a_pod(index) for index in range(replicas)],
        spec_replicas=replicas,
        status_replicas=replicas,
        tolerances=Tolerances(0.1, 0.1),
        cpu_initialization_seconds=120,
        initial_readiness_seconds=10,
        now=NOW,
    )


def observed(replicas, *readings, problem=None):
    return Observation(
        scale={"spec": {"replicas": replicas}},
        scaled=scaled(replicas),
        readings=readings,
        selector_problem=problem,
        downscale_window=WINDOW,
    )


def planned(autoscaler, replicas, *readings, history=None, now=NOW, **options):
    """The plan, after the target was scaled if it says so."""
    observation = observed(replicas, *readings, **options)
    plan = plan_autoscaler(autoscaler, observation, history or ScalingHistory(), now)
    if plan.replicas is not None:
        rescaled(plan, autoscaler, observation.scale)
    return plan


def conditions(plan):
    return {each["type"]: (each["status"], each["reason"]) for each in plan.status["conditions"]}


def events(plan):
    return [(each.type, each.reason, each.message) for each in plan.events]


# The metrics.


def target(type_, value):
    return {"type": type_, type_[0].lower() + type_[1:]: value}


def an_object(type_="Value", **metric):
    return {
        "type": "Object",
        "object": {
            "describedObject": {"kind": "Service", "name": "web", "apiVersion": "v1"},
            "metric": {"name": "hits"} | metric,
            "target": target(type_, "10"),
        },
    }


SELECTOR = {
    "matchLabels": {"b": "2", "a": "1"},
    "matchExpressions": [{"key": "c", "operator": "In", "values": ["x", "y"]}],
}
GO_SELECTOR = (
    "&LabelSelector{MatchLabels:map[string]string{a: 1,b: 2,},MatchExpressions:"
    "[]LabelSelectorRequirement{LabelSelectorRequirement{Key:c,Operator:In,Values:[x y],},},}"
)


def an_external(type_="Value", **metric):
    source = {"metric": {"name": "queue"} | metric, "target": target(type_, "10")}
    return {"type": "External", "external": source}


def a_pods_metric(**metric):
    source = {"metric": {"name": "qps"} | metric, "target": target("AverageValue", "10")}
    return {"type": "Pods", "pods": source}


def memory(quantity):
    return {
        "type": "Resource",
        "resource": {"name": "memory", "target": target("AverageValue", quantity)},
    }


def of_container(metric):
    return {
        "type": "ContainerResource",
        "containerResource": metric["resource"] | {"container": "app"},
    }


@pytest.mark.parametrize(
    ("metric", "reading", "name", "replicas", "current"),
    [
        (
            CPU,
            cpu(700, 800),
            "cpu resource utilization (percentage of request)",
            3,
            {"averageUtilization": 75, "averageValue": "750m"},
        ),
        (
            of_container(CPU),
            cpu(700, 800),
            "cpu container resource utilization (percentage of request)",
            3,
            {"averageUtilization": 75, "averageValue": "750m"},
        ),
        (
            memory("1Gi"),
            cpu(2048 << 20, 1024 << 20),
            "memory resource",
            1,
            {"averageValue": "1610612736m"},
        ),
        (
            memory("1Gi"),
            cpu(2000 << 30, 1000 << 30),
            "memory resource",
            3,
            {"averageValue": "1536Mi"},
        ),
        (a_pods_metric(), cpu(30_000, 10_000), "pods metric qps", 4, {"averageValue": "20"}),
        (an_object(), [15_000], "Service metric hits", 3, {"value": "15"}),
        (
            an_object("AverageValue"),
            [30_500],
            "external metric hits(nil)",
            4,
            {"averageValue": "15250m"},
        ),
        (an_external(), [9_000, 6_000], "external metric queue(nil)", 3, {"value": "15"}),
        (
            an_external("AverageValue", selector=SELECTOR),
            [30_000],
            f"external metric queue({GO_SELECTOR})",
            3,
            {"averageValue": "15"},
        ),
    ],
)
def test_proposals(metric, reading, name, replicas, current):
    outcome = propose("shop", metric, reading, scaled(2))
    assert outcome == Proposal(replicas, name, current)
    status = metric_status(metric, outcome)
    (field,) = set(status) - {"type"}
    assert status["type"] == metric["type"]
    source = {name: value for name, value in metric[field].items() if name != "target"}
    assert status[field] == source | {"current": current}


@pytest.mark.parametrize(
    ("metric", "reason", "message", "error"),
    [
        (
            CPU,
            "FailedGetResourceMetric",
            "failed to get cpu utilization: unable to get metrics for resource cpu: down",
            "failed to get cpu resource metric value: failed to get cpu utilization: "
            "unable to get metrics for resource cpu: down",
        ),
        (
            memory("1Gi"),
            "FailedGetResourceMetric",
            "failed to get memory usage: unable to get metrics for resource memory: down",
            "failed to get memory resource metric value: failed to get memory usage: "
            "unable to get metrics for resource memory: down",
        ),
        (
            of_container(CPU),
            "FailedGetContainerResourceMetric",
            "failed to get cpu utilization: unable to get metrics for resource cpu: down",
            "failed to get app container metric value: failed to get cpu utilization: "
            "unable to get metrics for resource cpu: down",
        ),
        (
            a_pods_metric(),
            "FailedGetPodsMetric",
            "unable to get metric qps: down",
            "failed to get pods metric value: unable to get metric qps: down",
        ),
        (
            an_object(),
            "FailedGetObjectMetric",
            "unable to get metric hits on Service shop/web: down",
            "failed to get object metric value: unable to get metric hits on Service shop/web: "
            "down",
        ),
        (
            an_object("AverageValue"),
            "FailedGetObjectMetric",
            "unable to get metric hits on Service shop/web: down",
            "failed to get object metric value: failed to get hits object metric: unable to get "
            "metric hits on Service shop/web: down",
        ),
        (
            an_external(selector=SELECTOR),
            "FailedGetExternalMetric",
            f"unable to get external metric shop/queue/{GO_SELECTOR}: down",
            "failed to get queue external metric value: failed to get external metric queue: "
            f"unable to get external metric shop/queue/{GO_SELECTOR}: down",
        ),
        (
            an_external("AverageValue"),
            "FailedGetExternalMetric",
            "unable to get external metric shop/queue/nil: down",
            "failed to get queue external metric value: failed to get queue external metric: "
            "unable to get external metric shop/queue/nil: down",
        ),
        (
            {"type": "Other"},
            "InvalidMetricSourceType",
            'unknown metric source type "Other"',
            'unknown metric source type "Other"',
        ),
    ],
)
def test_failures(metric, reason, message, error):
    outcome = propose("shop", metric, MetricsError("down"), scaled(2))
    assert outcome == Failure(reason, message, error)
    assert metric_status(metric, outcome) == {"type": ""}


# The plans.


def test_scale_up():
    plan = planned(an_autoscaler(CPU), 3, cpu(700, 800, 900))
    assert plan.replicas == 5
    assert events(plan) == [
        (
            "Normal",
            "SuccessfulRescale",
            "New size: 5; reason: cpu resource utilization (percentage of request) above target",
        )
    ]
    assert conditions(plan) == {
        "AbleToScale": ("True", "SucceededRescale"),
        "ScalingActive": ("True", "ValidMetricFound"),
        "ScalingLimited": ("False", "DesiredWithinRange"),
        "ScaledToZero": ("False", "NotScaledToZero"),
    }
    status = plan.status
    assert status["currentReplicas"] == 3
    assert status["desiredReplicas"] == 5
    assert status["observedGeneration"] == 2
    assert status["lastScaleTime"] == text_of(NOW)
    assert not plan.error


def test_scale_down_waits():
    """Pods are scaled down when no higher recommendation is younger than five minutes."""
    autoscaler = an_autoscaler(CPU)
    first = planned(autoscaler, 3, cpu(100, 100, 100))
    assert first.replicas is None
    assert conditions(first)["AbleToScale"] == ("True", "ScaleDownStabilized")
    soon = planned(autoscaler, 3, cpu(100, 100, 100), history=first.history, now=NOW + 299)
    assert soon.replicas is None
    later = planned(autoscaler, 3, cpu(100, 100, 100), history=soon.history, now=NOW + 301)
    assert later.replicas == 1
    assert later.events[0].message == "New size: 1; reason: All metrics below target"


def test_within_tolerance():
    plan = planned(an_autoscaler(CPU), 3, cpu(500, 520, 540))
    assert plan.replicas is None
    assert not plan.events
    assert conditions(plan)["AbleToScale"] == ("True", "ReadyForNewScale")
    assert "lastScaleTime" not in plan.status


@pytest.mark.parametrize(
    ("current", "replicas", "reason"),
    [
        (12, 10, "Current number of replicas above Spec.MaxReplicas"),
        (1, 2, "Current number of replicas below Spec.MinReplicas"),
    ],
)
def test_bounds_need_no_metrics(current, replicas, reason):
    autoscaler = an_autoscaler(CPU, minimum=2)
    assert not needs_metrics(autoscaler, {"spec": {"replicas": current}})
    plan = planned(autoscaler, current)
    assert plan.replicas == replicas
    assert plan.events[0].message == f"New size: {replicas}; reason: {reason}"
    assert plan.status["currentMetrics"] is None


def test_target_without_replicas():
    plan = planned(an_autoscaler(CPU), 0)
    assert plan.replicas is None
    assert conditions(plan)["ScalingActive"] == ("False", "ScalingDisabled")
    assert "currentReplicas" not in plan.status


def zero(status="True"):
    return {"conditions": [{"type": "ScaledToZero", "status": status}]}


@pytest.mark.parametrize(
    ("status", "metrics", "minimum", "needed"),
    [
        ({}, [QUEUE], 0, False),
        (zero("False"), [QUEUE], 0, False),
        (zero(), [QUEUE], 0, True),
        (zero(), [CPU], 0, False),
        (zero(), [CPU], 1, True),
    ],
)
def test_needs_metrics_at_zero(status, metrics, minimum, needed):
    autoscaler = an_autoscaler(*metrics, status=status, minimum=minimum)
    assert needs_metrics(autoscaler, {"spec": {}}) is needed


def test_to_zero_and_back():
    autoscaler = an_autoscaler(QUEUE, minimum=0)
    down = planned(autoscaler, 1, [0], history=history([(0, 400)]))
    assert down.replicas == 0
    assert conditions(down)["ScaledToZero"] == ("True", "ScaledToZero")
    up = planned(autoscaler | {"status": down.status}, 0, [25_000])
    assert up.replicas == 3
    assert conditions(up)["ScaledToZero"] == ("False", "NotScaledToZero")


def test_higher_minimum_after_zero():
    behavior = {"scaleUp": UP, "scaleDown": DOWN}
    autoscaler = an_autoscaler(QUEUE, minimum=2, status=zero(), behavior=behavior)
    plan = planned(autoscaler, 0, [0])
    assert (plan.replicas, plan.reason) == (2, "Current number of replicas below Spec.MinReplicas")


def test_largest_proposal():
    plan = planned(an_autoscaler(CPU, QUEUE), 3, cpu(700, 800, 900), [50_000])
    assert plan.replicas == 6
    assert plan.reason == "external metric queue(nil) above target"


def test_some_metrics_fail():
    """The other metrics may scale up, but not down."""
    autoscaler, broken = an_autoscaler(CPU, QUEUE), MetricsError("down")
    up = planned(autoscaler, 3, cpu(700, 800, 900), broken)
    assert up.replicas == 5
    assert up.error.startswith("invalid metrics (1 invalid out of 2), first error is: failed to")
    assert conditions(up)["ScalingActive"] == ("True", "ValidMetricFound")
    assert [each.reason for each in up.events] == ["FailedGetExternalMetric", "SuccessfulRescale"]
    down = planned(autoscaler, 3, cpu(100, 100, 100), broken)
    assert down.replicas is None
    assert conditions(down)["ScalingActive"] == ("False", "FailedGetExternalMetric")
    assert down.status["currentMetrics"][1] == {"type": ""}


def test_all_metrics_fail():
    plan = planned(an_autoscaler(CPU, status={"desiredReplicas": 7}), 3, MetricsError("down"))
    cause = "failed to get cpu utilization: unable to get metrics for resource cpu: down"
    error = (
        "invalid metrics (1 invalid out of 1), first error is: failed to get cpu resource metric "
        f"value: {cause}"
    )
    assert events(plan) == [
        ("Warning", "FailedGetResourceMetric", cause),
        ("Warning", "FailedComputeMetricsReplicas", error),
    ]
    assert plan.error == (
        "failed to compute desired number of replicas based on listed metrics for "
        f"Deployment/shop/web: {error}"
    )
    (active,) = (each for each in plan.status["conditions"] if each["type"] == "ScalingActive")
    assert active["message"] == f"the HPA was unable to compute the replica count: {cause}"
    assert plan.status["desiredReplicas"] == 7
    assert plan.status["currentReplicas"] == 3


def test_selector_problem():
    problem = SelectorProblem("SelectorRequired", "selector is required", "InvalidSelector", "no")
    plan = planned(an_autoscaler(CPU), 3, problem=problem)
    assert conditions(plan)["ScalingActive"] == ("False", "InvalidSelector")
    assert [each.reason for each in plan.events] == [
        "SelectorRequired",
        "FailedComputeMetricsReplicas",
    ]
    assert plan.status["currentMetrics"] is None


def test_target_without_scale():
    plan = without_scale(an_autoscaler(CPU), "failed to query: gone", "gone", NOW)
    assert events(plan) == [("Warning", "FailedGetScale", "gone")]
    assert plan.status["conditions"] == [
        {
            "type": "AbleToScale",
            "status": "False",
            "lastTransitionTime": text_of(NOW),
            "reason": "FailedGetScale",
            "message": "the HPA controller was unable to get the target's current scale: gone",
        }
    ]


def test_target_that_cannot_be_scaled():
    autoscaler = an_autoscaler(CPU)
    plan = plan_autoscaler(autoscaler, observed(3, cpu(700, 800, 900)), ScalingHistory(), NOW)
    not_rescaled(plan, autoscaler, "forbidden")
    assert conditions(plan)["AbleToScale"] == ("False", "FailedUpdateScale")
    assert events(plan) == [
        (
            "Warning",
            "FailedRescale",
            "New size: 5; reason: cpu resource utilization (percentage of request) above target; "
            "error: forbidden",
        )
    ]
    assert plan.status["desiredReplicas"] == 0
    assert plan.error == "failed to rescale Deployment/shop/web: forbidden"


def test_nothing_changes():
    """A plan for the status that it has written is the same status, whatever the time is."""
    autoscaler = an_autoscaler(CPU)
    first = planned(autoscaler, 3, cpu(500, 500, 500))
    autoscaler["status"] = copy.deepcopy(first.status)
    again = planned(autoscaler, 3, cpu(500, 500, 500), history=first.history, now=NOW + 1000)
    assert again.status == autoscaler["status"]
    assert autoscaler["status"] == first.status
