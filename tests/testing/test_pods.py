"""`server.pods`: a test decides how simulated pods fare."""

from __future__ import annotations

import pytest

from kapiserver.api.resource_client import StatusError
from kapiserver.testing import TestServer

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {"containers": [{"name": "app", "image": "nginx"}, {"name": "log", "image": "log"}]},
}


@pytest.fixture(scope="module")
def simulating():
    with TestServer(simulate=True) as server:
        yield server


@pytest.fixture
def server(simulating):
    simulating.reset()
    simulating.state.load([POD])
    simulating.objects.wait_for("pod/web", "condition=Ready")
    return simulating


def states(server):
    pod = server.objects.wait_for("pod/web", "create")
    return {
        each["name"]: each.get("lastState") or each["state"]
        for each in pod["status"]["containerStatuses"]
    }


def test_failed_pod_recovers(server):
    server.pods.fail("web", exit_code=137)
    pod = server.objects.wait_for("pod/web", "condition=Ready=False")
    codes = [
        (each["state"].get("terminated") or each["lastState"]["terminated"])["exitCode"]
        for each in pod["status"]["containerStatuses"]
    ]
    assert codes == [137, 137]
    server.pods.recover("web")
    server.clock.advance("1m")
    pod = server.objects.wait_for("pod/web", "condition=Ready")
    assert all(each["restartCount"] for each in pod["status"]["containerStatuses"])


def test_one_container_is_killed_for_its_memory(server):
    server.pods.fail("web", container="log", oom=True)
    server.objects.wait_for("pod/web", "condition=Ready=False")
    found = states(server)
    assert found["log"]["terminated"]["reason"] == "OOMKilled"
    assert "running" in found["app"]


def test_readiness(server):
    server.pods.set_ready("web", False)
    pod = server.objects.wait_for("pod/web", "condition=Ready=False")
    assert pod["status"]["phase"] == "Running"
    server.pods.set_ready("web", True)
    server.objects.wait_for("pod/web", "condition=Ready")


def test_missing_pod(server):
    with pytest.raises(StatusError, match='pods "absent" not found'):
        server.pods.fail("absent")


def test_server_that_does_not_simulate():
    with TestServer() as server, pytest.raises(RuntimeError, match="simulate=True"):
        server.pods.fail("web")
