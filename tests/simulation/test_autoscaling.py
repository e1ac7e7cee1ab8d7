"""Autoscalers of a simulated cluster, with the rights of their controller's service account."""

from __future__ import annotations

import pytest

from kapiserver.testing.server import TestServer
from tests.simulation.test_simulation import deployment, objects

pytestmark = pytest.mark.anyio

WEB = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}


@pytest.fixture
async def server():
    async with TestServer(simulate=True) as server:
        await server.settle_async()
        yield server


def autoscalers(server):
    return objects(server, "horizontalpodautoscalers", "autoscaling/v2")


async def autoscale(server, *metrics, target=WEB, **spec):
    spec = {"scaleTargetRef": target, "maxReplicas": 10, "metrics": list(metrics)} | spec
    await autoscalers(server).create({"metadata": {"name": "web"}, "spec": spec})
    await server.settle_async()


def web(**usage):
    """A Deployment of two pods that request one CPU each."""
    created = deployment(replicas=2)
    template = created["spec"]["template"]
    template["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1", "memory": "1Gi"}}
    template["metadata"]["annotations"] = {
        f"simulation.kapiserver.dev/{name}-usage": text for name, text in usage.items()
    }
    return created


def of_resource(name, **target):
    type_ = "Utilization" if "averageUtilization" in target else "AverageValue"
    return {"type": "Resource", "resource": {"name": name, "target": {"type": type_} | target}}


async def replicas(server):
    return (await objects(server, "deployments", "apps/v1").get("web"))["spec"]["replicas"]


async def set_usage(server, **usage):
    for pod in (await objects(server, "pods").list())["items"]:
        await server.metrics.set_usage_async(pod["metadata"]["name"], **usage)


async def status_of(server):
    status = (await autoscalers(server).get("web"))["status"]
    conditions = {each["type"]: (each["status"], each["reason"]) for each in status["conditions"]}
    return status, conditions


async def test_up_and_down(server):
    """A Deployment follows the CPU usage of its pods: up at once, down after five minutes. Idle
    pods use a tenth of what they request."""
    await objects(server, "deployments", "apps/v1").create(web())
    await server.clock.advance_async("6m")
    await autoscale(server, of_resource("cpu", averageUtilization=50))
    assert await replicas(server) == 2
    status, conditions = await status_of(server)
    assert status["currentMetrics"] == [
        {
            "type": "Resource",
            "resource": {
                "name": "cpu",
                "current": {"averageUtilization": 10, "averageValue": "100m"},
            },
        }
    ]
    assert conditions["AbleToScale"] == ("True", "ScaleDownStabilized")
    await set_usage(server, cpu="90%")
    await server.clock.advance_async("15s")
    assert await replicas(server) == 4
    status, conditions = await status_of(server)
    assert (status["currentReplicas"], status["desiredReplicas"]) == (2, 4)
    assert conditions["ScalingActive"] == ("True", "ValidMetricFound")
    # The new pods start: the autoscaler looks at their CPU when they have been ready for a while.
    await set_usage(server, cpu="5%")
    await server.clock.advance_async("4m")
    assert await replicas(server) == 4
    await server.clock.advance_async("2m")
    assert await replicas(server) == 1
    events = (await objects(server, "events").list())["items"]
    assert [each["message"] for each in events if each["reason"] == "SuccessfulRescale"] == [
        "New size: 4; reason: cpu resource utilization (percentage of request) above target",
        "New size: 1; reason: All metrics below target",
    ]


async def test_nothing_changes(server):
    """The status is not written again while everything stays as it is."""
    await objects(server, "deployments", "apps/v1").create(web(cpu="50%"))
    await server.clock.advance_async("6m")
    await autoscale(server, of_resource("cpu", averageUtilization=50))
    await server.clock.advance_async("15s")
    before = (await autoscalers(server).get("web"))["metadata"]["resourceVersion"]
    await server.clock.advance_async("5m")
    assert (await autoscalers(server).get("web"))["metadata"]["resourceVersion"] == before


async def test_memory_of_a_template(server):
    await objects(server, "deployments", "apps/v1").create(web(memory="600Mi"))
    await server.settle_async()
    await autoscale(server, of_resource("memory", averageValue="200Mi"))
    assert await replicas(server) == 4  # at most twice as many at a time, and at least 4
    await server.clock.advance_async("15s")
    assert await replicas(server) == 8
    await server.clock.advance_async("15s")
    assert await replicas(server) == 10
    _, conditions = await status_of(server)
    assert conditions["ScalingLimited"] == ("True", "TooManyReplicas")


async def test_container_resource(server):
    created = web()
    containers = created["spec"]["template"]["spec"]["containers"]
    containers.append({"name": "side", "image": "nginx", "resources": {"requests": {"cpu": "1"}}})
    await objects(server, "deployments", "apps/v1").create(created)
    await server.clock.advance_async("6m")
    for pod in (await objects(server, "pods").list())["items"]:
        name = pod["metadata"]["name"]
        await server.metrics.set_usage_async(name, cpu="100%", container="side")
    target = {"type": "Utilization", "averageUtilization": 50}
    source = {"name": "cpu", "container": "side", "target": target}
    await autoscale(server, {"type": "ContainerResource", "containerResource": source})
    assert await replicas(server) == 4


async def test_behavior(server):
    await objects(server, "deployments", "apps/v1").create(web(cpu="100%"))
    await server.clock.advance_async("6m")
    one_a_minute = {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]}
    cpu = of_resource("cpu", averageUtilization=20)
    await autoscale(server, cpu, behavior={"scaleUp": one_a_minute})
    sizes = [await replicas(server)]
    for _ in range(8):
        await server.clock.advance_async("15s")
        sizes.append(await replicas(server))
    assert sizes == [3, 3, 3, 3, 4, 4, 4, 4, 5]


async def test_tolerance(server):
    await objects(server, "deployments", "apps/v1").create(web(cpu="54%"))
    await server.clock.advance_async("6m")
    cpu = of_resource("cpu", averageUtilization=50)
    await autoscale(server, cpu)
    assert await replicas(server) == 2
    behavior = {"scaleUp": {"tolerance": "50m"}}
    await autoscalers(server).patch("web", {"spec": {"behavior": behavior}})
    await server.settle_async()
    assert await replicas(server) == 3


async def test_pods_and_object_metrics(server):
    await objects(server, "deployments", "apps/v1").create(web())
    await objects(server, "services").create(
        {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}}
    )
    await server.settle_async()
    for pod in (await objects(server, "pods").list())["items"]:
        await server.metrics.set_async(f"pod/{pod['metadata']['name']}", "hits", "30")
    ten = {"type": "AverageValue", "averageValue": "10"}
    service = {"apiVersion": "v1", "kind": "Service", "name": "web"}
    await autoscale(
        server,
        {"type": "Pods", "pods": {"metric": {"name": "hits"}, "target": ten}},
        {
            "type": "Object",
            "object": {"metric": {"name": "all"}, "describedObject": service, "target": ten},
        },
    )
    assert await replicas(server) == 4
    _, conditions = await status_of(server)
    assert conditions["ScalingLimited"] == ("True", "ScaleUpLimit")
    events = (await objects(server, "events").list())["items"]
    (problem,) = (each for each in events if each["reason"] == "FailedGetObjectMetric")
    assert problem["message"] == (
        "unable to get metric all on Service default/web: unable to fetch metrics from custom "
        "metrics API: the server could not find the metric all for services web"
    )
    await server.metrics.set_async("service/web", "all", "85")
    await server.clock.advance_async("15s")
    assert await replicas(server) == 8
    await server.clock.advance_async("15s")
    assert await replicas(server) == 9


async def test_namespace_metric(server):
    await objects(server, "deployments", "apps/v1").create(web())
    await server.metrics.set_async("namespace/default", "all", "30")
    described = {"apiVersion": "v1", "kind": "Namespace", "name": "default"}
    target = {"type": "AverageValue", "averageValue": "10"}
    source = {"metric": {"name": "all"}, "describedObject": described, "target": target}
    await autoscale(server, {"type": "Object", "object": source})
    assert await replicas(server) == 3


async def test_zero_and_back(server):
    """An external metric can scale to zero, and from zero again."""
    await objects(server, "deployments", "apps/v1").create(web())
    await server.settle_async()
    metric = {"name": "queue", "selector": {"matchLabels": {"name": "jobs"}}}
    source = {"metric": metric, "target": {"type": "AverageValue", "averageValue": "10"}}
    await server.metrics.set_external_async("queue", "0", labels={"name": "jobs"})
    await autoscale(server, {"type": "External", "external": source}, minReplicas=0)
    await server.clock.advance_async("6m")
    assert await replicas(server) == 0
    _, conditions = await status_of(server)
    assert conditions["ScaledToZero"] == ("True", "ScaledToZero")
    await server.metrics.set_external_async("queue", "25", labels={"name": "jobs"})
    await server.clock.advance_async("15s")
    assert await replicas(server) == 3


async def test_new_pods_are_not_measured(server):
    """Pods that start do not add pods: their CPU counts when they have been ready for 15 seconds,
    for which a metric is measured."""
    await objects(server, "deployments", "apps/v1").create(web(cpu="100%"))
    await server.settle_async()
    await autoscale(server, of_resource("cpu", averageUtilization=50))
    assert await replicas(server) == 2
    _, conditions = await status_of(server)
    assert conditions["ScalingActive"] == ("False", "FailedGetResourceMetric")
    await server.clock.advance_async("15s")
    assert await replicas(server) == 4


DEFINITION = {
    "metadata": {"name": "fleets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "fleets", "kind": "Fleet"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
                "subresources": {
                    "status": {},
                    "scale": {
                        "specReplicasPath": ".spec.size",
                        "statusReplicasPath": ".status.size",
                        "labelSelectorPath": ".status.selector",
                    },
                },
            }
        ],
    },
}


async def test_custom_resource(server):
    """A target is any resource with a scale. Its operator runs the pods."""
    definitions = objects(
        server, "customresourcedefinitions", "apiextensions.k8s.io/v1", namespace=""
    )
    await definitions.create(DEFINITION)
    await server.settle_async()
    fleets = objects(server, "fleets", "example.com/v1")
    await fleets.create({"kind": "Fleet", "metadata": {"name": "red"}, "spec": {"size": 1}})
    target = {"apiVersion": "example.com/v1", "kind": "Fleet", "name": "red"}
    await autoscale(
        server, of_resource("memory", averageValue="100Mi"), target=target, minReplicas=2
    )
    assert (await fleets.get("red"))["spec"]["size"] == 2
    await server.clock.advance_async("15s")
    _, conditions = await status_of(server)
    assert conditions["ScalingActive"] == ("False", "InvalidSelector")
    await objects(server, "deployments", "apps/v1").create(web(memory="300Mi"))
    status = {"size": 2, "selector": "app=web"}
    await fleets.patch("red", {"status": status}, subresource="status")
    await server.clock.advance_async("15s")
    assert (await fleets.get("red"))["spec"]["size"] == 4
