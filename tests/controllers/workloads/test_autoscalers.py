"""The controller of HorizontalPodAutoscalers on a server that serves no metrics."""

from __future__ import annotations

import pytest

from kapiserver.controllers.workloads.deployment.controller import DeploymentController
from kapiserver.controllers.workloads.horizontal_pod_autoscaler.controller import (
    HorizontalPodAutoscalerController,
)
from kapiserver.controllers.workloads.replica_set import ReplicaSetController
from tests.controllers.workloads.workloads import running

pytestmark = pytest.mark.anyio

WEB = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
NO_METRICS = "the server could not find the requested resource (get pods.metrics.k8s.io)"


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
async def shop():
    async with running(
        HorizontalPodAutoscalerController, DeploymentController, ReplicaSetController
    ) as workloads:
        yield workloads


def deployment(name="web", replicas=3):
    labels = {"app": name}
    container = {"name": "app", "image": "nginx", "resources": {"requests": {"cpu": "1"}}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": name}, "spec": spec}


def autoscalers(shop):
    return shop.objects("horizontalpodautoscalers", "autoscaling/v2")


async def autoscale(shop, name="web", target=WEB, **spec):
    """Create an autoscaler and return it after its first reconcile."""
    spec = {"scaleTargetRef": target, "maxReplicas": 10} | spec
    await autoscalers(shop).create({"metadata": {"name": name}, "spec": spec})
    await shop.settle()
    return await autoscalers(shop).get(name)


async def replicas(shop, name="web"):
    return (await shop.objects("deployments").get(name))["spec"]["replicas"]


def conditions(autoscaler):
    return {
        each["type"]: (each["status"], each["reason"], each["message"])
        for each in autoscaler["status"]["conditions"]
    }


async def events(shop):
    return [
        (each["reason"], each["message"], each.get("count"))
        for each in await shop.items("events", "v1")
        if each["involvedObject"]["kind"] == "HorizontalPodAutoscaler"
    ]


async def test_bounds(shop):
    await shop.objects("deployments").create(deployment())
    autoscaler = await autoscale(shop, minReplicas=5)
    assert await replicas(shop) == 5
    assert autoscaler["status"]["currentReplicas"] == 3
    assert autoscaler["status"]["desiredReplicas"] == 5
    assert autoscaler["status"]["observedGeneration"] == 1
    assert await events(shop) == [
        (
            "SuccessfulRescale",
            "New size: 5; reason: Current number of replicas below Spec.MinReplicas",
            1,
        )
    ]
    await autoscalers(shop).patch("web", {"spec": {"minReplicas": 1, "maxReplicas": 2}})
    await shop.settle()
    assert await replicas(shop) == 2


async def test_no_metrics(shop):
    """The error is reported every 15 seconds, and in the status once."""
    await shop.objects("deployments").create(deployment())
    autoscaler = await autoscale(shop)
    cause = (
        "failed to get cpu utilization: unable to get metrics for resource cpu: unable to fetch "
        f"metrics from resource metrics API: {NO_METRICS}"
    )
    assert conditions(autoscaler) == {
        "AbleToScale": (
            "True",
            "SucceededGetScale",
            "the HPA controller was able to get the target's current scale",
        ),
        "ScalingActive": (
            "False",
            "FailedGetResourceMetric",
            f"the HPA was unable to compute the replica count: {cause}",
        ),
    }
    assert autoscaler["status"]["currentMetrics"] == [{"type": ""}]
    before = autoscaler["metadata"]["resourceVersion"]
    await shop.advance(14)
    assert [count for *_, count in await events(shop)] == [1, 1]
    await shop.advance(1)
    assert [(reason, count) for reason, _, count in await events(shop)] == [
        ("FailedGetResourceMetric", 2),
        ("FailedComputeMetricsReplicas", 2),
    ]
    assert (await autoscalers(shop).get("web"))["metadata"]["resourceVersion"] == before


async def test_other_metrics_are_not_served(shop):
    await shop.objects("deployments").create(deployment())
    ten = {"type": "AverageValue", "averageValue": "10"}
    described = {"apiVersion": "v1", "kind": "Service", "name": "web"}
    metric = {"name": "hits"}
    autoscaler = await autoscale(
        shop,
        metrics=[
            {"type": "Pods", "pods": {"metric": metric, "target": ten}},
            {
                "type": "Object",
                "object": {"metric": metric, "target": ten, "describedObject": described},
            },
            {"type": "External", "external": {"metric": metric, "target": ten}},
        ],
    )
    assert conditions(autoscaler)["ScalingActive"][1] == "FailedGetPodsMetric"
    no_custom = (
        "unable to fetch metrics from custom metrics API: no custom metrics API "
        "(custom.metrics.k8s.io) registered"
    )
    assert [message for _, message, _ in await events(shop)][:3] == [
        f"unable to get metric hits: {no_custom}",
        f"unable to get metric hits on Service shop/web: {no_custom}",
        "unable to get external metric shop/hits/nil: unable to fetch metrics from external "
        "metrics API: the server could not find the requested resource "
        "(get hits.external.metrics.k8s.io)",
    ]


@pytest.mark.parametrize(
    ("target", "cause"),
    [
        (
            {"apiVersion": "a.io/v1", "kind": "Fleet", "name": "web"},
            'no matches for kind "Fleet" in group "a.io"',
        ),
        (WEB, 'deployments.apps "web" not found'),
        (
            {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "web"},
            "the server could not find the requested resource",
        ),
    ],
)
async def test_no_scale(shop, target, cause):
    autoscaler = await autoscale(shop, target=target)
    assert conditions(autoscaler) == {
        "AbleToScale": (
            "False",
            "FailedGetScale",
            f"the HPA controller was unable to get the target's current scale: {cause}",
        )
    }
    assert await events(shop) == [("FailedGetScale", cause, 1)]


async def test_two_autoscalers_of_the_same_pods(shop):
    await shop.objects("deployments").create(deployment())
    await shop.settle()
    await autoscale(shop, "first")
    second = await autoscale(shop, "second")
    message = (
        "pods by selector app=web are controlled by more than one HPA "
        "(e.g. [{first shop} {second shop}])"
    )
    assert conditions(second)["ScalingActive"] == ("False", "AmbiguousSelector", message)
    await autoscalers(shop).delete("first")
    await shop.advance(15)
    second = await autoscalers(shop).get("second")
    assert conditions(second)["ScalingActive"][1] == "FailedGetResourceMetric"


async def test_deleted_autoscaler(shop):
    await shop.objects("deployments").create(deployment())
    await autoscale(shop)
    await autoscalers(shop).delete("web")
    await shop.advance(60)
    assert [count for *_, count in await events(shop)] == [1, 1]
