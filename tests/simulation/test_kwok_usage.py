"""kwok's ResourceUsages and ClusterResourceUsages, and their expressions."""

from __future__ import annotations

import logging

import pytest

from kapiserver.simulation.kwok.expressions import (
    ExpressionError,
    Surroundings,
    evaluate,
    number_of,
)
from kapiserver.simulation.kwok.resource_usage import ResourceUsages
from kapiserver.testing.server import TestServer
from tests.simulation.test_simulation import bare_pod, objects
from tests.times import text_of

NOW = 1_700_000_000.0
SURROUNDINGS = Surroundings(now=NOW)
NODE = {
    "metadata": {"name": "one", "creationTimestamp": text_of(NOW - 86400)},
    "status": {"allocatable": {"cpu": "90m"}},
}
CONTAINER = {"name": "app", "resources": {"requests": {"cpu": "10m", "memory": "1Gi"}}}
POD = {
    "metadata": {
        "name": "web",
        "namespace": "shop",
        "annotations": {"cpu": "10m"},
        "creationTimestamp": text_of(NOW - 60),
    },
    "spec": {"containers": [CONTAINER, {"name": "side"}]},
}
BARE_POD = {"metadata": {"name": "bare", "namespace": "shop"}}
FROM_ANNOTATION = """
"kwok.x-k8s.io/usage-cpu" in pod.metadata.annotations
? Quantity(pod.metadata.annotations["kwok.x-k8s.io/usage-cpu"])
: Quantity("1m")
"""


def value_of(source, pod=POD, surroundings=SURROUNDINGS):
    variables = {"node": NODE, "pod": pod, "container": CONTAINER}
    return number_of(evaluate(source, variables, surroundings))


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("1", 1),
        ("1.5 + 1.5", 3),
        ("2u", 2),
        ("true", 1),
        ('duration("1s")', 1e9),
        ('Quantity("1Ti")', 2**40),
        ('"100m".Quantity()', 0.1),
        ('Quantity("1Ti") + Quantity("1Ti")', 2**41),
        ('Quantity("1Ti") - Quantity("512Gi")', 2**39),
        ('-Quantity("1m")', -0.001),
        ('Quantity("1Ti") * 2', 2**41),
        ('Quantity("1Ti") * 2u', 2**41),
        ('Quantity("1Ti") * 0.5', 2**39),
        ('Quantity("1Ti") / 2', 2**39),
        ('Quantity("1Ti") / 2.0', 2**39),
        ('Quantity("1m") * 0.5', 0),
        ('Quantity("5m") / 2', 0.002),
        ('Quantity("1m") / 0.1', 0.01),
        ('Quantity("1Ti") == Quantity("1024Gi")', 1),
        ('Quantity("1") != Quantity("1000m")', 0),
        ('Quantity("1Ti") > Quantity("1023Gi")', 1),
        ('Quantity("1Ti") <= Quantity("1023Gi")', 0),
        ("UnixSecond(Now())", NOW),
        ("now().UnixSecond()", NOW),
        ("Now().UnixSecond() - node.metadata.creationTimestamp.UnixSecond()", 86400),
        ("SinceSecond(pod)", 60),
        ("node.SinceSecond()", 86400),
        ('Quantity("1Mi") * (pod.SinceSecond() / 60.0)', 2**20),
        ('container.resources.requests["memory"] / 2', 2**29),
        ('node.status.allocatable["cpu"] + pod.spec.containers[0].resources.requests["cpu"]', 0.1),
        ('( Quantity("10m") + Quantity(pod.metadata.annotations["cpu"]) ) * 1.5 * 10', 0.3),
        ('pod.metadata.name == "web" && container.name == "app"', 1),
        ("pod.spec.containers.size()", 2),
        (FROM_ANNOTATION, 0.001),
    ],
)
def test_expressions(source, value):
    assert value_of(source) == pytest.approx(value, rel=1e-12)


def test_chance():
    values = {value_of("Rand()") for _ in range(3)}
    assert len(values) == 3
    assert all(0 <= each < 1 for each in values)


def test_annotation():
    annotations = {"kwok.x-k8s.io/usage-cpu": "100m"}
    assert value_of(FROM_ANNOTATION, {"metadata": {"annotations": annotations}}) == 0.1
    assert value_of(FROM_ANNOTATION, BARE_POD) == 0.001


def test_metrics_know_more():
    surroundings = Surroundings(
        now=NOW,
        usage=lambda obj, resource, container: len(obj["metadata"]["name"] + resource + container),
        cumulative_usage=lambda *_: 7.0,
        started_containers=lambda node: {"one": 2}[node],
    )
    for source, value in (
        ('Usage(pod, "cpu")', 6),
        ('pod.Usage("cpu", container.name)', 9),
        ('CumulativeUsage(node, "cpu")', 7),
        ("node.StartedContainersTotal() / 10.0", 0.2),
        ("StartedContainersTotal(node.metadata.name)", 2),
    ):
        assert value_of(source, surroundings=surroundings) == value


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("Quantity(", "Syntax error"),
        ("Whatever()", "undeclared reference to 'Whatever'"),
        ('Quantity("1m") + 1', "found no matching overload for '_.+_'"),
        ('Quantity("1m") * "2"', "found no matching overload for '_.+_'"),
        ('Quantity("1m") / 0', "division by zero"),
        ('Quantity("1") / 1e-320 * 1e300', "no such multiple"),
        ('Quantity("many")', "quantities must match"),
        ("1" + " + 1" * 5000, "longer than 16384 characters"),
        ('"text"', "is not a finite number"),
        ("pod.spec.nodeName", "no such key: nodeName"),
        ('Usage(pod, "cpu")', "only an expression of a Metric"),
        ("SinceSecond(container)", "no creation timestamp"),
        ("[1,2,3,4,5,6,7,8,9].map(a, [1,2,3,4,5,6,7,8,9].map(b, [1,2,3,4,5,6,7,8,9].map(c, "
         "[1,2,3,4,5,6,7,8,9].map(d, [1,2,3,4,5,6,7,8,9].map(e, a))))).size()", "cost limit"),
    ],
)  # fmt: skip
def test_bad_expressions(source, problem):
    with pytest.raises((ValueError, ExpressionError), match=problem):
        value_of(source)


def usage(name="web", *entries, **spec):
    return {"metadata": {"name": name, "namespace": "shop"}, "spec": {"usages": entries, **spec}}


def entry(cpu, *containers):
    amount = {"expression": cpu} if "(" in cpu else {"value": cpu}
    return {"containers": list(containers), "usage": {"cpu": amount}}


@pytest.mark.parametrize(
    ("of_pods", "of_cluster", "app", "side"),
    [
        ([], [], None, None),
        ([usage("web", entry("1"))], [], 1, 1),
        ([usage("web", entry("1"), entry("2", "side"))], [], 1, 2),
        ([usage("web", entry("1", "app"))], [usage("any", entry("3"))], 1, None),
        ([usage("other", entry("1"))], [usage("any", entry("3"))], 3, 3),
        ([], [usage("any", entry("3", "app")), usage("z", entry("4"))], 3, 4),
        ([], [usage("any", entry("3"), selector={"matchNames": ["other"]})], None, None),
        ([], [usage("any", entry("3"), selector={"matchNames": ["web"]})], 3, 3),
        ([], [usage("any", entry("3"), selector={"matchNamespaces": ["other"]})], None, None),
        ([], [usage("any", entry("3"), selector={"matchNamespaces": ["shop"]})], 3, 3),
        ([usage("web", entry('Quantity("250m") * 2'))], [], 0.5, 0.5),
        ([usage("web", entry("Quantity(pod.spec.nodeName)"))], [], 0, 0),
        ([usage("web", entry("double('NaN')"))], [], 0, 0),
        ([usage("web", entry("double('inf')"))], [], 0, 0),
        ([usage("web", entry("(-1)"))], [], 0, 0),
        ([usage("web", entry("1e400"))], [], 1e15, 1e15),
        ([usage("web", {"usage": {"memory": {}}})], [], 0, 0),
    ],
)
def test_which_object_counts(of_pods, of_cluster, app, side):
    by_pod = {("shop", each["metadata"]["name"]): each for each in of_pods}
    usages = ResourceUsages(by_pod, of_cluster, SURROUNDINGS)
    found = [usages.amounts(NODE, POD, each) for each in POD["spec"]["containers"]]
    assert [None if each is None else each.get("cpu", 0) for each in found] == [app, side]


def test_log(caplog):
    usages = ResourceUsages({}, [usage("web", entry("Whatever()"))], SURROUNDINGS)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert usages.amounts(NODE, POD, CONTAINER) == {"cpu": 0}
    assert caplog.text.count("the usage of pod web: ") == 1


PUBLISHED = {
    "apiVersion": "kwok.x-k8s.io/v1alpha1",
    "kind": "ClusterResourceUsage",
    "metadata": {"name": "usage-from-annotation"},
    "spec": {
        "usages": [
            {
                "usage": {
                    "cpu": {"expression": FROM_ANNOTATION},
                    "memory": {"expression": 'Quantity("1Mi") * int(pod.SinceSecond() / 60.0)'},
                }
            }
        ]
    },
}


@pytest.mark.anyio
async def test_server():
    """`kubectl top` shows what the objects say; our annotations count more."""
    async with TestServer(simulate=True) as server:
        await server.settle_async()
        usages = objects(server, "clusterresourceusages", "kwok.x-k8s.io/v1alpha1", namespace="")
        await usages.create(PUBLISHED)
        pod = bare_pod("web")
        pod["metadata"]["annotations"] = {"kwok.x-k8s.io/usage-cpu": "250m"}
        await objects(server, "pods").create(pod)
        await server.clock.advance_async("3m")
        metrics = objects(server, "pods", "metrics.k8s.io/v1beta1")

        async def used():
            (container,) = (await metrics.get("web"))["containers"]
            return container["usage"]

        assert await used() == {"cpu": "250m", "memory": "3Mi"}
        of_pod = {
            "apiVersion": "kwok.x-k8s.io/v1alpha1",
            "kind": "ResourceUsage",
            "metadata": {"name": "web"},
            "spec": {"usages": [{"usage": {"cpu": {"value": "500m"}, "memory": {"value": 7}}}]},
        }
        await objects(server, "resourceusages", "kwok.x-k8s.io/v1alpha1").create(of_pod)
        assert await used() == {"cpu": "500m", "memory": "7"}
        await server.metrics.set_usage_async("web", cpu="2")
        assert await used() == {"cpu": "2", "memory": "7"}
        nodes = objects(server, "nodes", "metrics.k8s.io/v1beta1", namespace="")
        assert (await nodes.get("simulated-0"))["usage"] == {"cpu": "2", "memory": "7"}
        definitions = objects(
            server, "customresourcedefinitions", "apiextensions.k8s.io/v1", namespace=""
        )
        await definitions.delete("resourceusages.kwok.x-k8s.io")
        await definitions.delete("clusterresourceusages.kwok.x-k8s.io")
        await server.settle_async()
        assert await used() == {"cpu": "2", "memory": "10Mi"}
