"""`kapiserver serve --simulate`, as people use a cluster with kubectl."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.e2e.programs import Kubectl, Server, kubectls, run, start, stop


@pytest.fixture(scope="module")
def simulating(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with two simulated nodes."""
    running = start(tmp_path_factory.mktemp("simulate"), "--simulate", "--simulate-nodes=2")
    yield running
    stop(running)


@pytest.fixture
def kubectl(simulating: Server) -> Kubectl:
    """The newest kubectl, with that server."""

    def call(*arguments: str, stdin: str = "", fails: bool = False) -> str:
        return run(kubectls()[0], simulating, *arguments, stdin=stdin, fails=fails)

    return call


def test_nodes(kubectl: Kubectl) -> None:
    """The nodes get ready, and hold Leases."""
    for node in ("simulated-0", "simulated-1"):  # kubectl gives up at once if two are missing
        kubectl("wait", "--for=create", f"node/{node}", "--timeout=60s")
    kubectl("wait", "--for=condition=Ready", "node", "--all", "--timeout=60s")
    rows = [line.split()[:2] for line in kubectl("get", "nodes").splitlines()[1:]]
    assert rows == [["simulated-0", "Ready"], ["simulated-1", "Ready"]]
    assert "HolderIdentity:  simulated-0" in kubectl("describe", "node", "simulated-0")


def test_rollouts(kubectl: Kubectl) -> None:
    """A deployment rolls out, gets another image, goes back, is restarted and goes away."""

    def images() -> set[str]:
        pods = json.loads(kubectl("get", "pods", "-l=app=web", "-o=json"))["items"]
        living = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
        assert [pod["status"]["phase"] for pod in living] == ["Running"] * 3
        return {pod["spec"]["containers"][0]["image"] for pod in living}

    def wait() -> None:
        output = kubectl("rollout", "status", "deployment/web", "--timeout=60s")
        assert 'deployment "web" successfully rolled out' in output

    kubectl("create", "deployment", "web", "--image=nginx", "--replicas=3")
    wait()
    assert images() == {"nginx"}
    kubectl("wait", "--for=condition=Available", "deployment/web", "--timeout=60s")
    kubectl("set", "image", "deployment/web", "nginx=nginx:2")
    wait()
    assert images() == {"nginx:2"}
    kubectl("rollout", "undo", "deployment/web")
    wait()
    assert images() == {"nginx"}
    kubectl("rollout", "restart", "deployment/web")
    wait()
    name = kubectl("get", "pods", "-l=app=web", "-o=name").split()[0]
    assert kubectl("delete", name).startswith("pod ")
    wait()
    kubectl("delete", "deployment", "web", "--cascade=foreground", "--timeout=60s")
    assert kubectl("get", "pods", "-l=app=web") == ""


def test_fates(kubectl: Kubectl) -> None:
    """Annotations decide how a pod lives, also while it runs."""
    prefix = "simulation.kapiserver.dev"
    kubectl("run", "one", "--image=nginx")
    kubectl("wait", "--for=condition=Ready", "pod/one", "--timeout=60s")
    kubectl("annotate", "pod", "one", f"{prefix}/ready=false")
    kubectl("wait", "--for=condition=Ready=false", "pod/one", "--timeout=60s")
    kubectl("annotate", "pod", "one", f"{prefix}/exit-code=3")
    crashed = "jsonpath={.status.containerStatuses[0].state.waiting.reason}=CrashLoopBackOff"
    kubectl("wait", f"--for={crashed}", "pod/one", "--timeout=60s")
    kubectl("delete", "pod", "one", "--timeout=60s")
