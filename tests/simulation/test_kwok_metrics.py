"""kwok's Metrics: pages that Prometheus scrapes."""

from __future__ import annotations

import asyncio
import logging

import httpx
import pytest
import yaml

from kapiserver.apiserver.serving.metrics.text import text_of
from kapiserver.simulation.kwok.expressions import Surroundings
from kapiserver.simulation.kwok.metric_families import families_of
from kapiserver.simulation.metrics.node_pages import Totals, node_name
from kapiserver.testing.server import TestServer
from tests.simulation.test_simulation import bare_pod, objects

NODE = {"metadata": {"name": "one"}}
PODS = [
    {
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"containers": [{"name": "app"}, {"name": "side"}]},
    }
    for name in ("a", "b")
]


def page(*metrics, pods=PODS):
    """The text of a page."""
    metric = {"spec": {"path": "/metrics/x", "metrics": list(metrics)}}
    families = families_of(metric, NODE, pods, Surroundings(now=1000.0))

    async def read():
        return b"".join([piece async for piece in text_of(families)]).decode()

    return asyncio.run(read())


def a_metric(name="up", kind="gauge", **fields):
    return {"name": name, "kind": kind} | fields


def labels(**values):
    return [{"name": name, "value": value} for name, value in values.items()]


@pytest.mark.parametrize(
    ("metric", "lines"),
    [
        (a_metric(value="1"), ["up 1"]),
        (a_metric(value="Quantity('500m')"), ["up 0.5"]),
        (a_metric(kind="counter", value="UnixSecond(Now())"), ["up 1000"]),
        (
            a_metric(value="1", dimension="pod", labels=labels(pod="pod.metadata.name")),
            ['up{pod="a"} 1', 'up{pod="b"} 1'],
        ),
        (
            a_metric(
                value="2.5",
                dimension="container",
                labels=labels(pod="pod.metadata.name", container='container.name + "\\"\\n"'),
            ),
            [
                'up{pod="a",container="app\\"\\n"} 2.5',
                'up{pod="a",container="side\\"\\n"} 2.5',
                'up{pod="b",container="app\\"\\n"} 2.5',
                'up{pod="b",container="side\\"\\n"} 2.5',
            ],
        ),
        (
            a_metric(
                kind="histogram",
                buckets=[
                    {"le": 0.5, "value": "1"},
                    {"le": 0.7, "value": "2", "hidden": True},
                    {"le": 1, "value": "4"},
                    {"le": 2, "value": "8", "hidden": True},
                ],
            ),
            [
                'up_bucket{le="0.5"} 1',
                'up_bucket{le="1"} 7',
                'up_bucket{le="+Inf"} 15',
                "up_sum 21.9",
                "up_count 15",
            ],
        ),
    ],
)
def test_page(metric, lines):
    head = ["# HELP up ", f"# TYPE up {metric['kind']}"]
    assert page(metric).splitlines() == [*head, *lines]


def test_help():
    text = page(a_metric(value="1", help="Whether \\ it\nis up.\n"))
    assert text.startswith("# HELP up Whether \\\\ it\\nis up.\n# TYPE")


@pytest.mark.parametrize(
    "metric",
    [
        a_metric(value="Whatever()"),
        a_metric(value="pod.metadata.name"),
        a_metric(value="'text'"),
        a_metric(value="double('inf')"),
        a_metric(),
        a_metric("not a name", value="1"),
        a_metric(value="1", labels=labels(**{"not a name": "'x'"})),
        a_metric(value="1", labels=labels(number="1")),
        a_metric(kind="histogram", buckets=[{"le": 1, "value": "1 / 0"}]),
    ],
)
def test_bad_metric(metric, caplog):
    """A metric that cannot be evaluated is left out, the others are not."""
    with caplog.at_level(logging.WARNING):
        text = page(metric, a_metric("good", value="1"))
    assert text == "# HELP good \n# TYPE good gauge\ngood 1\n"
    assert caplog.text.count(f"the metric {metric['name']}: ") == 1


def test_same_name():
    assert page(a_metric(value="1"), a_metric(value="2")).endswith("\nup 1\n")


@pytest.mark.parametrize(
    ("template", "path", "node"),
    [
        ("/metrics/nodes/{nodeName}/metrics/resource", "/metrics/nodes/a/metrics/resource", "a"),
        ("/metrics/nodes/{nodeName}/metrics/resource", "/metrics/nodes/a/b/metrics/resource", None),
        ("/metrics/nodes/{nodeName}/metrics/resource", "/metrics/nodes//metrics/resource", None),
        ("/metrics/nodes/{nodeName}", "/metrics/nodes/a.b", "a.b"),
        ("/metrics/nodes.x", "/metrics/nodes.x", "one"),
        ("/metrics/nodes.x", "/metrics/nodesyx", None),
        ("/other/{nodeName}", "/other/a", None),
        ("", "", None),
    ],
)
def test_path(template, path, node):
    assert node_name({"metadata": {"name": "one"}, "spec": {"path": template}}, path) == node


def test_totals():
    totals = Totals()
    assert totals.add("a", 2.0, 10.0) == 0
    assert totals.add("a", 2.0, 15.0) == 10
    assert totals.add("a", 2.0, 15.0) == 10
    assert totals.add("a", 1.0, 16.0) == 11
    assert totals.add("b", 1.0, 16.0) == 0


RESOURCE = """
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Metric
metadata: {name: resource}
spec:
  path: /metrics/nodes/{nodeName}/metrics/resource
  metrics:
  - {name: scrape_error, kind: gauge, dimension: node, value: '0'}
  - name: container_cpu_usage_seconds_total
    kind: counter
    dimension: container
    labels:
    - {name: container, value: container.name}
    - {name: pod, value: pod.metadata.name}
    value: 'pod.CumulativeUsage("cpu", container.name)'
  - name: pod_cpu_usage_seconds_total
    kind: counter
    dimension: pod
    labels: [{name: pod, value: pod.metadata.name}]
    value: 'pod.CumulativeUsage("cpu")'
  - name: pod_memory_working_set_bytes
    kind: gauge
    dimension: pod
    labels: [{name: pod, value: pod.metadata.name}]
    value: 'pod.Usage("memory")'
  - {name: node_cpu_usage_seconds_total, kind: counter, value: 'node.CumulativeUsage("cpu")'}
  - {name: node_memory_working_set_bytes, kind: gauge, value: 'node.Usage("memory")'}
  - {name: node_gpus, kind: gauge, value: 'node.Usage("gpu")'}
  - {name: started_containers, kind: counter, value: 'node.StartedContainersTotal()'}
  - {name: other_containers, kind: counter, value: 'StartedContainersTotal("other")'}
"""
PATH = "/metrics/nodes/simulated-0/metrics/resource"


@pytest.mark.anyio
async def test_server():
    """A page with the metrics of a kubelet's /metrics/resource, read twice."""
    async with TestServer(simulate=True) as server:
        server.clock.freeze()
        await server.settle_async()
        metrics = objects(server, "metrics", "kwok.x-k8s.io/v1alpha1", namespace="")
        await metrics.create(yaml.safe_load(RESOURCE))
        await objects(server, "pods").create(bare_pod("web"))
        await server.settle_async()
        await server.metrics.set_usage_async("web", cpu="500m", memory="1Gi")
        headers = {"Authorization": f"Bearer {server.token}"}
        async with httpx.AsyncClient(
            timeout=60, base_url=server.url, verify=server.ssl_context, headers=headers
        ) as client:

            async def scrape():
                response = await client.get(PATH)
                assert response.status_code == 200
                assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
                lines = response.text.splitlines()
                return dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))

            first = await scrape()
            assert first["node_cpu_usage_seconds_total"] == "0"
            await server.clock.advance_async("60s")
            second = await scrape()
            assert second == {
                "scrape_error": "0",
                'container_cpu_usage_seconds_total{container="app",pod="web"}': "30",
                'pod_cpu_usage_seconds_total{pod="web"}': "30",
                'pod_memory_working_set_bytes{pod="web"}': str(1 << 30),
                "node_cpu_usage_seconds_total": "30",
                "node_memory_working_set_bytes": str(1 << 30),
                "node_gpus": "0",
                "started_containers": "1",
                "other_containers": "0",
            }
            for path, code in (
                (PATH.replace("simulated-0", "other"), 404),
                ("/metrics/nodes/simulated-0", 404),
                ("/metrics", 200),
            ):
                assert (await client.get(path)).status_code == code
            assert (await client.post(PATH)).status_code == 405
        token = server.add_token("somebody")
        async with httpx.AsyncClient(
            timeout=60,
            base_url=server.url,
            verify=server.ssl_context,
            headers={"Authorization": f"Bearer {token}"},
        ) as client:
            assert (await client.get(PATH)).status_code == 403
