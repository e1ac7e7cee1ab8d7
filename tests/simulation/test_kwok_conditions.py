"""The condition Compiled of kwok's kinds that have expressions."""

from __future__ import annotations

import pytest

from kapiserver.simulation.kwok.expression_reporter import problem_of
from kapiserver.testing.server import TestServer
from tests.simulation.test_simulation import objects

BAD = "Whatever()"
MESSAGE = "ERROR: <input>:1:9: undeclared reference to 'Whatever' (in container '')"


def usages(**amount):
    return {"usages": [{"usage": {"memory": {"value": "1"}, "cpu": amount}}]}


def metrics(**config):
    return {"path": "/metrics/x", "metrics": [{"name": "up", "kind": "gauge"} | config]}


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({}, None),
        (usages(), None),
        (usages(value="1"), None),
        (usages(expression='Quantity("1")'), None),
        (usages(expression=BAD), "spec.usages[0].usage.cpu.expression"),
        (metrics(value="1"), None),
        (metrics(value=BAD), "spec.metrics[0].value"),
        (metrics(labels=[{"name": "a", "value": BAD}]), "spec.metrics[0].labels[0].value"),
        (metrics(buckets=[{"le": 1, "value": BAD}]), "spec.metrics[0].buckets[0].value"),
    ],
)
def test_problem(spec, path):
    problem = problem_of({"spec": spec})
    assert problem.startswith(f"{path}: {MESSAGE}") if path else problem == ""


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("kind", "resource", "namespace", "good", "bad"),
    [
        (
            "ResourceUsage",
            "resourceusages",
            "default",
            usages(expression="1"),
            usages(expression=BAD),
        ),
        (
            "ClusterResourceUsage",
            "clusterresourceusages",
            "",
            usages(expression="1"),
            usages(expression=BAD),
        ),
        ("Metric", "metrics", "", metrics(value="1"), metrics(value=BAD)),
    ],
)
async def test_condition(kind, resource, namespace, good, bad):
    """The condition follows the spec, and is written once."""
    async with TestServer(simulate=True) as server:
        await server.settle_async()
        client = objects(server, resource, "kwok.x-k8s.io/v1alpha1", namespace=namespace)
        created = {"kind": kind, "metadata": {"name": "one"}, "spec": good}
        await client.create(created)
        for spec, status, reason in (
            (good, "True", "Compiled"),
            (bad, "False", "CompileFailed"),
            (good, "True", "Compiled"),
        ):
            await client.patch("one", {"spec": spec})
            await server.settle_async()
            one = await client.get("one")
            (condition,) = one["status"]["conditions"]
            assert (condition["status"], condition["reason"]) == (status, reason)
            assert (MESSAGE in condition["message"]) is (status == "False")
            await server.clock.advance_async("1m")
            assert await client.get("one") == one
