"""The nodes of `--simulate-nodes-from`."""

from __future__ import annotations

import pytest

from kapiserver.apiserver.configuration_files import BadConfiguration
from kapiserver.apiserver.user import APISERVER
from kapiserver.simulation.node_templates import read_nodes
from kapiserver.testing.server import TestServer

NODES = """
apiVersion: v1
kind: Node
metadata:
  name: gpu
  uid: 8a5f
  labels: {disk: ssd, kubernetes.io/hostname: other}
  annotations: {simulation.kapiserver.dev/count: "2", team: ml}
spec:
  podCIDR: 10.9.0.0/24
  taints: [{key: gpu, effect: NoSchedule}]
status:
  capacity: {cpu: "8", memory: 16Gi, pods: "20"}
  addresses: [{type: InternalIP, address: 10.0.0.1}]
---
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata:
    name: arm
    resourceVersion: "7"
    labels: {kubernetes.io/arch: arm64}
  status:
    nodeInfo: {architecture: arm64}
"""


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "nodes.yaml"
        path.write_text(text)
        return path

    return write


def test_nodes(file):
    """A count makes several nodes, which differ in what no two nodes share."""
    first, second, arm = read_nodes(file(NODES))
    assert [each["metadata"]["name"] for each in (first, second, arm)] == ["gpu-0", "gpu-1", "arm"]
    assert first["metadata"]["annotations"] == {"team": "ml"}
    assert (
        first["metadata"]["labels"] | {"kubernetes.io/hostname": "gpu-1"}
        == (second["metadata"]["labels"])
    )
    assert first["metadata"]["labels"]["disk"] == "ssd"
    assert set(first["metadata"]) == {"name", "labels", "annotations"}
    assert first["spec"] == {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}
    assert first["status"] == {"capacity": {"cpu": "8", "memory": "16Gi", "pods": "20"}}
    assert set(arm["metadata"]) == {"name", "labels"}
    assert arm["metadata"]["labels"]["kubernetes.io/arch"] == "arm64"
    assert read_nodes(file("")) == []


def node_with(count):
    annotations = f'{{simulation.kapiserver.dev/count: "{count}"}}'
    return f"apiVersion: v1\nkind: Node\nmetadata: {{name: a, annotations: {annotations}}}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "yaml"),
        ("a: 1", "not a Node"),
        ("[]", "not a Node"),
        ("items: [3]", "not a Node"),
        ("apiVersion: v1\nkind: Pod", "not a Node"),
        ("apiVersion: v1\nkind: Node", "no name"),
        ("apiVersion: v1\nkind: Node\nmetadata: {name: 3}", "no name"),
        ("apiVersion: v1\nkind: Node\nmetadata: []\nspec: 3", "must be objects"),
        ("apiVersion: v1\nkind: Node\nmetadata: {name: a, labels: [b]}", "must be objects"),
        (node_with("many"), "is not a number: 'many'"),
        (node_with("-1"), "is not a number"),
        (node_with("9" * 5000), "is not a number"),
        (node_with(10_001), "more than 10000 nodes"),
        (node_with(6000) + "---\n" + node_with(6000), "more than 10000 nodes"),
        (node_with(2) + "---\n" + node_with(1), "2 nodes have the name a-0"),
    ],
)
def test_bad_files(file, text, message):
    with pytest.raises(BadConfiguration, match=message):
        read_nodes(file(text))


def test_missing_file(tmp_path):
    with pytest.raises(BadConfiguration, match="cannot read the node template file"):
        read_nodes(tmp_path / "absent.yaml")


def nodes_of(server):
    async def read():
        client = server.running.cluster.server.client(APISERVER, authorize=False)
        return (await client.resource("v1", "nodes").list())["items"]

    server.settle()
    return {each["metadata"]["name"]: each for each in server.run(read())}


def test_server(file):
    """The nodes of the file take the place of the one that is made otherwise; one that the server
    refuses is left out."""
    bad = "---\napiVersion: v1\nkind: Node\nmetadata: {name: NOT_VALID}\n"
    path = file(NODES + bad)
    with TestServer(simulate=True, simulate_nodes_from=str(path)) as server:
        nodes = nodes_of(server)
    assert list(nodes) == ["arm", "gpu-0", "gpu-1"]
    assert {each["status"]["conditions"][-1]["reason"] for each in nodes.values()} == {
        "KubeletReady"
    }
    assert nodes["gpu-0"]["spec"]["podCIDR"] != nodes["gpu-1"]["spec"]["podCIDR"]
    assert nodes["arm"]["status"]["nodeInfo"]["architecture"] == "arm64"
    assert nodes["arm"]["status"]["nodeInfo"]["operatingSystem"] == "linux"
    with TestServer(simulate=True, simulate_nodes=1, simulate_nodes_from=path) as server:
        assert list(nodes_of(server)) == ["arm", "gpu-0", "gpu-1", "simulated-0"]


def test_server_with_a_bad_file(file):
    server = TestServer(simulate=True, simulate_nodes_from=file("a: 1"))
    with pytest.raises(BadConfiguration, match="not a Node"), server:
        pass
