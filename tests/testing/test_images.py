"""`server.images`: a test takes images away from the simulated nodes."""

from __future__ import annotations

import pytest

from kapiserver.testing import TestServer
from tests.testing.test_pods import POD

NGINX = "docker.io/library/nginx:latest"


@pytest.fixture(scope="module")
def simulating():
    with TestServer(simulate=True, simulate_nodes=2) as server:
        yield server


@pytest.fixture
def server(simulating):
    simulating.reset()
    return simulating


def waiting(server, name="web"):
    """The container `app` of a pod, and why it waits."""
    (status,) = [
        each
        for each in server.objects.wait_for(f"pod/{name}", "create")["status"]["containerStatuses"]
        if each["name"] == "app"
    ]
    return status["state"].get("waiting", {}).get("reason")


def events(server):
    client = server.internal_client().resource("v1", "events", namespace="default")
    return [(each["reason"], each["message"]) for each in server.run(client.list())["items"]]


def test_missing_image(server):
    """A pod waits for an image, with the events of a kubelet, and starts when it appears."""
    server.clock.freeze()  # the back-off begins when the test says so
    server.images.fail("nginx:latest")
    server.images.fail("other")
    server.state.load([POD])
    server.settle()
    assert waiting(server) == "ErrImagePull"
    server.clock.advance("1s")
    assert waiting(server) == "ImagePullBackOff"
    reported = events(server)
    assert ("Failed", "Error: ImagePullBackOff") in reported
    assert ("BackOff", 'Back-off pulling image "nginx"') in reported
    server.images.recover("nginx:latest")
    server.clock.resume()
    server.objects.wait_for("pod/web", "condition=Ready")


def test_running_pod(server):
    """A container that runs goes on, and crashes without a need for its image."""
    server.state.load([POD])
    server.objects.wait_for("pod/web", "condition=Ready")
    server.images.fail("nginx:1")
    server.images.fail("nginx:1")
    server.images.fail("log:1")
    server.images.recover("nginx:1")
    server.settle()
    assert waiting(server) is None


def test_refusal():
    """A server that does not simulate says so."""
    with TestServer() as server, pytest.raises(RuntimeError, match="simulate=True"):
        server.images.fail("nginx")
