"""The groups of metrics of a simulated server, over HTTP and within the server."""

from __future__ import annotations

import httpx
import pytest

from kapiserver.testing.server import TestServer
from tests.simulation.test_simulation import bare_pod, objects

pytestmark = pytest.mark.anyio

METRICS = "/apis/metrics.k8s.io/v1beta1"
CUSTOM = "/apis/custom.metrics.k8s.io/v1beta2"
EXTERNAL = "/apis/external.metrics.k8s.io/v1beta1"
UNKNOWN = "the server could not find the requested resource"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"


@pytest.fixture
async def server():
    async with TestServer(simulate=True, simulate_nodes=2) as server:
        yield server


@pytest.fixture
async def client(server):
    headers = {"Authorization": f"Bearer {server.token}"}
    async with httpx.AsyncClient(
        timeout=60, base_url=server.url, verify=server.ssl_context, headers=headers
    ) as client:
        yield client


async def run_pod(server, name, labels=None, **annotations):
    """A pod with two containers that request one CPU each."""
    containers = [
        {"name": each, "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
        for each in ("app", "side")
    ]
    annotations = {key.replace("_", "-"): value for key, value in annotations.items()}
    pod = bare_pod(name)
    pod["spec"]["containers"] = [each | {"image": "nginx"} for each in containers]
    pod["metadata"]["labels"] = labels or {}
    pod["metadata"]["annotations"] = {
        f"simulation.kapiserver.dev/{key}": value for key, value in annotations.items()
    }
    await objects(server, "pods").create(pod)
    await server.settle_async()


async def get(client, path, **parameters):
    response = await client.get(path, params=parameters)
    return response.status_code, response.json()


async def test_pods(server, client):
    await run_pod(server, "one", {"app": "web"}, cpu_usage="80%")
    await run_pod(server, "two", {"app": "job"}, start_seconds="60")
    _, listed = await get(client, f"{METRICS}/pods")
    (metrics,) = listed["items"]
    assert listed["kind"] == "PodMetricsList"
    assert metrics["metadata"]["name"] == "one"
    assert metrics["metadata"]["labels"] == {"app": "web"}
    assert metrics["containers"] == [
        {"name": name, "usage": {"cpu": "800m", "memory": "512Mi"}} for name in ("app", "side")
    ]
    assert metrics["window"] == "15s"
    code, one = await get(client, f"{METRICS}/namespaces/default/pods/one")
    assert (code, one["kind"], one["containers"]) == (200, "PodMetrics", metrics["containers"])
    for selector, names in (
        ({"labelSelector": "app=web"}, ["one"]),
        ({"labelSelector": "app!=web"}, []),
        ({"fieldSelector": "metadata.name=one"}, ["one"]),
    ):
        _, listed = await get(client, f"{METRICS}/namespaces/default/pods", **selector)
        assert [each["metadata"]["name"] for each in listed["items"]] == names
    await server.clock.advance_async("61s")
    _, listed = await get(client, f"{METRICS}/pods")
    assert [each["metadata"]["name"] for each in listed["items"]] == ["one", "two"]


async def test_nodes(server, client):
    await run_pod(server, "one", cpu_usage="500m", memory_usage="1Gi")
    pod = await objects(server, "pods").get("one")
    _, listed = await get(client, f"{METRICS}/nodes")
    usage = {each["metadata"]["name"]: each["usage"] for each in listed["items"]}
    node = pod["spec"]["nodeName"]
    assert usage.pop(node) == {"cpu": "1", "memory": "2Gi"}
    (other,) = usage.values()
    assert other == {"cpu": "0", "memory": "0"}
    _, one = await get(client, f"{METRICS}/nodes/{node}")
    assert one["usage"] == {"cpu": "1", "memory": "2Gi"}


async def test_node_that_is_not_simulated(server, client):
    await objects(server, "nodes", namespace="").create({"metadata": {"name": "real"}})
    code, status = await get(client, f"{METRICS}/nodes/real")
    assert (code, status["message"]) == (404, 'nodemetrics.metrics.k8s.io "real" not found')


async def test_stopped_kubelet(server, client):
    """A kubelet that is stopped measures nothing."""
    await run_pod(server, "one")
    node = (await objects(server, "pods").get("one"))["spec"]["nodeName"]
    await server.nodes.stop_async(node)
    assert (await get(client, f"{METRICS}/nodes/{node}"))[0] == 404
    assert (await get(client, f"{METRICS}/pods"))[1]["items"] == []
    await server.nodes.start_async(node)
    assert (await get(client, f"{METRICS}/nodes/{node}"))[0] == 200
    assert len((await get(client, f"{METRICS}/pods"))[1]["items"]) == 1


@pytest.mark.parametrize(
    ("path", "code", "message"),
    [
        (
            f"{METRICS}/namespaces/default/pods/none",
            404,
            'podmetrics.metrics.k8s.io "default/none" not found',
        ),
        (f"{METRICS}/pods/none", 404, UNKNOWN),
        (f"{METRICS}/volumes", 404, UNKNOWN),
        (f"{METRICS}/namespaces/default/pods/one/status", 404, UNKNOWN),
        (f"{METRICS}/pods?watch=true", 405, "the server does not allow this method"),
        (f"{METRICS}/pods?labelSelector=a=b=c", 400, "found '=', expected: ',' or 'end of string'"),
        ("/apis/metrics.k8s.io/v1/pods", 404, UNKNOWN),
        (f"{CUSTOM}/namespaces/default/pods/none/hits", 404, 'pods "none" not found'),
        (
            f"{CUSTOM}/namespaces/default/metrics/hits",
            404,
            "the server could not find the metric hits for namespaces default",
        ),
        (
            f"{CUSTOM}/namespaces/default/fleets.a.io/x/hits",
            404,
            "the server could not find the re",
        ),
        (f"{CUSTOM}/namespaces/default/pods/x", 404, UNKNOWN),
        (f"{CUSTOM}/namespaces/default/pods/x/y/z", 404, UNKNOWN),
        (
            f"{CUSTOM}/namespaces/default/nodes/x/hits",
            404,
            "the server could not find the requested",
        ),
        (
            f"{CUSTOM}/namespaces/default/podmetrics/x/y",
            404,
            "the server could not find the reques",
        ),
        (f"{CUSTOM}/namespaces/default/pods/*/hits?labelSelector=,,", 400, "found ',', expected"),
        (f"{EXTERNAL}/queue", 404, UNKNOWN),
        (f"{EXTERNAL}/namespaces/default/queue/x", 404, UNKNOWN),
        (f"{EXTERNAL}/namespaces/default/queue?labelSelector=,,", 400, "found ',', expected"),
    ],
)
async def test_errors(server, client, path, code, message):
    response = await client.get(path)
    assert response.status_code == code, response.text
    assert response.json()["message"].startswith(message)


async def test_writes(server, client):
    for path in (f"{METRICS}/namespaces/default/pods/x", f"{EXTERNAL}/namespaces/default/queue"):
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            response = await client.request(method, path, json={})
            assert response.status_code == 405


async def test_formats(server, client):
    await run_pod(server, "one", cpu_usage="500m")

    async def read(path, accept):
        response = await client.get(path, headers={"Accept": accept})
        assert response.status_code == 200, response.text
        return response

    table = (await read(f"{METRICS}/pods", TABLE)).json()
    assert [each["name"] for each in table["columnDefinitions"]] == [
        "Name", "cpu", "memory", "Window",
    ]  # fmt: skip
    assert [each["cells"] for each in table["rows"]] == [["one", "1", "1Gi", "15s"]]
    one = f"{METRICS}/namespaces/default/pods/one"
    assert (await read(one, PARTIAL)).json()["metadata"]["name"] == "one"
    (node, _) = (await read(f"{METRICS}/nodes", TABLE)).json()["rows"]
    assert len(node["cells"]) == 4
    body = (await read(one, "application/vnd.kubernetes.protobuf")).content
    assert body.startswith(b"k8s\0")
    assert b"PodMetrics" in body
    assert "kind: PodMetricsList" in (await read(f"{METRICS}/pods", "application/yaml")).text


async def test_custom_metrics(server, client):
    await run_pod(server, "one", {"app": "web"})
    await run_pod(server, "two", {"app": "web"})
    await run_pod(server, "three", {"app": "web"})
    await server.metrics.set_async("pod/one", "hits", "1500m")
    await server.metrics.set_async("pod/two", "hits", "2")
    await server.metrics.set_async("node/simulated-0", "heat", "40")
    await server.metrics.set_async("namespace/default", "hits", "7")
    _, listed = await get(
        client, f"{CUSTOM}/namespaces/default/pods/*/hits", labelSelector="app=web"
    )
    assert {each["describedObject"]["name"]: each["value"] for each in listed["items"]} == {
        "one": "1500m",
        "two": "2",
    }
    (one,) = (await get(client, f"{CUSTOM}/namespaces/default/pods/one/hits"))[1]["items"]
    assert one["metric"] == {"name": "hits"}
    assert one["describedObject"] == {
        "kind": "Pod",
        "namespace": "default",
        "name": "one",
        "apiVersion": "v1",
    }
    old = CUSTOM.replace("v1beta2", "v1beta1")
    (one,) = (await get(client, f"{old}/namespaces/default/pods/one/hits"))[1]["items"]
    assert (one["metricName"], one["value"]) == ("hits", "1500m")
    (node,) = (await get(client, f"{CUSTOM}/nodes/simulated-0/heat"))[1]["items"]
    assert node["value"] == "40"
    (namespace,) = (await get(client, f"{CUSTOM}/namespaces/default/metrics/hits"))[1]["items"]
    assert (namespace["describedObject"]["kind"], namespace["value"]) == ("Namespace", "7")


async def test_external_metrics(server, client):
    queue = f"{EXTERNAL}/namespaces/default/queue"
    assert (await get(client, queue))[1]["items"] == []
    await server.metrics.set_external_async("queue", "30", labels={"name": "jobs"})
    await server.metrics.set_external_async(
        "queue", "5", labels={"name": "mails"}, name="metric-mails"
    )
    await server.metrics.set_external_async("queue", "40", labels={"name": "jobs"})
    _, listed = await get(client, queue)
    assert [(each["metricLabels"], each["value"]) for each in listed["items"]] == [
        ({"name": "mails"}, "5"),
        ({"name": "jobs"}, "40"),
    ]
    _, listed = await get(client, queue, labelSelector="name=jobs")
    assert [each["value"] for each in listed["items"]] == ["40"]
    assert (await get(client, f"{EXTERNAL}/namespaces/other/queue"))[1]["items"] == []


async def test_discovery(server, client):
    async with TestServer() as plain:
        headers = {"Authorization": f"Bearer {plain.token}"}
        async with httpx.AsyncClient(
            timeout=60, base_url=plain.url, verify=plain.ssl_context, headers=headers
        ) as other:
            groups = (await other.get("/apis")).json()["groups"]
            assert not any("metrics" in each["name"] for each in groups)
            assert (await other.get(f"{METRICS}/pods")).status_code == 404
    groups = {each["name"]: each for each in (await client.get("/apis")).json()["groups"]}
    custom = groups["custom.metrics.k8s.io"]
    assert custom["preferredVersion"]["version"] == "v1beta2"
    _, resources = await get(client, METRICS)
    assert [(each["name"], each["kind"], each["verbs"]) for each in resources["resources"]] == [
        ("nodes", "NodeMetrics", ["get", "list"]),
        ("pods", "PodMetrics", ["get", "list"]),
    ]
    schemas = (await get(client, "/openapi/v3/apis/metrics.k8s.io/v1beta1"))[1]["components"]
    assert "io.k8s.metrics.pkg.apis.metrics.v1beta1.PodMetrics" in schemas["schemas"]


async def test_many_pods(server, client):
    """A long list is encoded in a thread."""
    pod = bare_pod("pod")
    for index in range(40):
        await objects(server, "pods").create(pod | {"metadata": {"name": f"pod-{index}"}})
    await server.settle_async()
    _, listed = await get(client, f"{METRICS}/pods")
    assert len(listed["items"]) == 40
    table = (await client.get(f"{METRICS}/pods", headers={"Accept": TABLE})).json()
    assert len(table["rows"]) == 40


async def test_rights(server):
    """Metrics need rights as everything does. Those of metrics.k8s.io are in the role view."""
    token = server.add_token("viewer")
    bindings = objects(server, "clusterrolebindings", "rbac.authorization.k8s.io/v1", namespace="")
    await bindings.create(
        {
            "metadata": {"name": "viewer"},
            "subjects": [{"kind": "User", "name": "viewer"}],
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "view",
            },
        }
    )
    await server.settle_async()
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(
        timeout=60, base_url=server.url, verify=server.ssl_context, headers=headers
    ) as client:
        assert (await client.get(f"{METRICS}/pods")).status_code == 200
        assert (await client.get(f"{EXTERNAL}/namespaces/default/queue")).status_code == 403
    for groups, code in (((), 403), (("system:masters",), 200)):
        token = server.add_token(f"user-{len(groups)}", groups)
        async with httpx.AsyncClient(
            timeout=60,
            base_url=server.url,
            verify=server.ssl_context,
            headers={"Authorization": f"Bearer {token}"},
        ) as client:
            for path in (f"{METRICS}/pods", f"{EXTERNAL}/namespaces/default/queue"):
                assert (await client.get(path)).status_code == code


async def test_control_errors(server):
    with pytest.raises(ValueError, match="write kind/name"):
        await server.metrics.set_async("web", "hits", "1")
    with pytest.raises(ValueError, match="quantities must match"):
        await server.metrics.set_async("pod/web", "hits", "many")
    with pytest.raises(ValueError, match="quantities must match"):
        await server.metrics.set_usage_async("web", cpu="much")
    async with TestServer() as plain:
        with pytest.raises(RuntimeError, match="simulate=True"):
            await plain.metrics.set_usage_async("web", cpu="1")
