"""Nodes of `kapiserver serve --simulate`, as administrators handle them with kubectl."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from tests.e2e.programs import Kubectl, Server, kubectl_of, start, stop

NODES = """
apiVersion: v1
kind: Node
metadata:
  name: worker
  annotations: {simulation.kapiserver.dev/count: "3"}
status:
  capacity: {cpu: "4", memory: 8Gi, pods: "20"}
---
apiVersion: v1
kind: Node
metadata:
  name: gpu
  labels: {accelerator: "true"}
spec:
  taints: [{key: gpu, effect: NoSchedule}]
"""
BUDGET = """
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec:
  minAvailable: 3
  selector: {matchLabels: {app: web}}
"""


@pytest.fixture(scope="module")
def simulating(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with the nodes of a file, which notices soon that one is lost."""
    folder = tmp_path_factory.mktemp("simulate-nodes")
    (folder / "nodes.yaml").write_text(NODES)
    running = start(
        folder,
        "--simulate",
        f"--simulate-nodes-from={folder / 'nodes.yaml'}",
        "--node-monitor-grace-period=15s",
        "--default-unreachable-toleration-seconds=1",
    )
    yield running
    stop(running)


@pytest.fixture
def kubectl(simulating: Server) -> Kubectl:
    """The newest kubectl, with that server."""
    return kubectl_of(simulating)


@pytest.fixture
def web(kubectl: Kubectl) -> Iterator[None]:
    """A Deployment of three pods."""
    kubectl("create", "deployment", "web", "--image=nginx", "--replicas=3")
    kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    yield
    kubectl("delete", "deployment", "web", "--cascade=foreground", "--timeout=60s")


def nodes_of_pods(kubectl: Kubectl) -> dict[str, str]:
    """The nodes of the pods that are not being deleted, by name."""
    pods = json.loads(kubectl("get", "pods", "-l=app=web", "-o=json"))["items"]
    return {
        pod["metadata"]["name"]: pod["spec"]["nodeName"]
        for pod in pods
        if "deletionTimestamp" not in pod["metadata"]
    }


def taints_of(kubectl: Kubectl, node: str) -> str:
    return kubectl("get", "node", node, "-o=jsonpath={.spec.taints[*].key}")


def test_nodes_of_a_file(kubectl: Kubectl) -> None:
    kubectl("wait", "--for=condition=Ready", "node", "--all", "--timeout=60s")
    rows = [line.split() for line in kubectl("get", "nodes").splitlines()[1:]]
    assert [row[:2] for row in rows] == [
        [name, "Ready"] for name in ("gpu", "worker-0", "worker-1", "worker-2")
    ]
    described = kubectl("describe", "node", "worker-1")
    assert re.search(r"cpu: +4$", described, re.M)
    assert "RegisteredNode" in described
    assert taints_of(kubectl, "gpu") == "gpu"


@pytest.mark.usefixtures("web")
def test_cordon(kubectl: Kubectl) -> None:
    """New pods avoid a node that is cordoned; those on it stay."""
    before = nodes_of_pods(kubectl)
    assert "node/worker-0 cordoned" in kubectl("cordon", "worker-0")
    unschedulable = "node.kubernetes.io/unschedulable"
    kubectl("wait", f"--for=jsonpath={{.spec.taints[0].key}}={unschedulable}", "node/worker-0",
            "--timeout=60s")  # fmt: skip
    assert "SchedulingDisabled" in kubectl("get", "node", "worker-0")
    kubectl("scale", "deployment/web", "--replicas=9")
    kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    after = nodes_of_pods(kubectl)
    assert before.items() <= after.items()
    new = set(after) - set(before)
    assert {after[name] for name in new} == {"worker-1", "worker-2"}
    assert "node/worker-0 uncordoned" in kubectl("uncordon", "worker-0")
    assert "SchedulingDisabled" not in kubectl("get", "node", "worker-0")


@pytest.mark.usefixtures("web")
def test_drain_with_a_budget(kubectl: Kubectl) -> None:
    """The budget refuses an eviction until there are enough pods; then the drain ends."""
    kubectl("create", "-f=-", stdin=BUDGET)
    counted = "jsonpath={.status.currentHealthy}=3"
    kubectl("wait", f"--for={counted}", "pdb/web", "--timeout=60s")
    node = next(iter(nodes_of_pods(kubectl).values()))
    drain = ("drain", node, "--ignore-daemonsets")
    refused = kubectl(*drain, "--timeout=1s", fails=True)
    assert "Cannot evict pod as it would violate the pod's disruption budget." in refused
    assert node in nodes_of_pods(kubectl).values()
    kubectl("scale", "deployment/web", "--replicas=4")
    assert f"node/{node} drained" in kubectl(*drain, "--timeout=60s")
    assert node not in nodes_of_pods(kubectl).values()
    kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    kubectl("uncordon", node)
    allowed = kubectl("get", "pdb", "web", "-o=jsonpath={.status.conditions[0].type}")
    assert allowed == "DisruptionAllowed"
    kubectl("delete", "pdb", "web")


@pytest.mark.usefixtures("web")
def test_lost_node(kubectl: Kubectl) -> None:
    """The pods of a node that is stopped are replaced, and go when it is back."""
    name, node = next(iter(nodes_of_pods(kubectl).items()))
    stopped = "simulation.kapiserver.dev/stopped"
    kubectl("annotate", "node", node, f"{stopped}=true")
    kubectl("wait", "--for=condition=Ready=Unknown", f"node/{node}", "--timeout=60s")
    assert "NotReady" in kubectl("get", "node", node)
    deleted = "jsonpath={.metadata.deletionGracePeriodSeconds}=30"
    kubectl("wait", f"--for={deleted}", f"pod/{name}", "--timeout=60s")
    assert "Terminating" in kubectl("get", "pod", name)
    kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    assert node not in nodes_of_pods(kubectl).values()
    assert "TaintManagerEviction" in kubectl("get", "events")
    kubectl("annotate", "node", node, f"{stopped}-")
    kubectl("wait", "--for=delete", f"pod/{name}", "--timeout=60s")
    kubectl("wait", "--for=condition=Ready", f"node/{node}", "--timeout=60s")


def test_bad_file(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A file that cannot be used is reported, and the server does not start."""
    folder = tmp_path_factory.mktemp("bad-nodes")
    (folder / "nodes.yaml").write_text("kind: Pod\n")
    with pytest.raises(AssertionError, match="an object is not a Node of the version v1"):
        start(folder, "--simulate", f"--simulate-nodes-from={folder / 'nodes.yaml'}")
