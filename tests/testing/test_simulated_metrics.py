"""`server.metrics`: a test sets what pods use, and other metrics, in Python and over the control
API."""

from __future__ import annotations

import pytest

from kapiserver.api.resource_client import StatusError
from kapiserver.testing import TestServer
from kapiserver.testing.control_api.server import ControlApi
from tests.testing.http_client import HttpClient
from tests.testing.test_control_api import Control

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {"containers": [{"name": "app", "image": "nginx"}, {"name": "log", "image": "log"}]},
}
PODS = "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods/web"
HITS = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/default/pods/web/hits"
QUEUE = "/apis/external.metrics.k8s.io/v1beta1/namespaces/default/job_queue"


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


@pytest.fixture
def control(server):
    api = ControlApi(server)
    listening = api.listen("127.0.0.1", 0)
    server.run(listening.__aenter__())
    yield Control(api)
    server.run(listening.__aexit__(None, None, None))


def read(server, path):
    status, body = HttpClient(server, agent="metrics")("GET", path)
    assert status == 200
    return body


def usage(server):
    return {each["name"]: each["usage"]["cpu"] for each in read(server, PODS)["containers"]}


def test_usage(server):
    server.metrics.set_usage("web", cpu="500m")
    server.metrics.set_usage("web", cpu="2", container="log")
    assert usage(server) == {"app": "500m", "log": "2"}
    server.pods.recover("web")
    assert usage(server) == {"app": "1m", "log": "1m"}


def test_missing_object(server):
    with pytest.raises(StatusError, match='pods "absent" not found'):
        server.metrics.set_usage("absent", cpu="1")


def test_other_metrics(server):
    server.metrics.set("pod/web", "hits", "25")
    server.metrics.set_external("job_queue", "30", labels={"name": "mails"})
    server.metrics.set_external("job_queue", "31", labels={"name": "mails"})
    (hits,) = read(server, HITS)["items"]
    (queue,) = read(server, QUEUE)["items"]
    assert (hits["value"], queue["value"]) == ("25", "31")
    assert queue["metricLabels"] == {"name": "mails"}


def test_control_api(server, control):
    assert control("POST", "/metrics/usage", {"pod": "web", "cpu": "750m"}).status == 200
    metric = {"target": "pod/web", "metric": "hits", "value": "5"}
    assert control("POST", "/metrics/set", metric).status == 200
    external = {"metric": "job_queue", "value": "7", "labels": {"name": "mails"}}
    assert control("POST", "/metrics/set-external", external).status == 200
    assert usage(server) == {"app": "750m", "log": "750m"}
    assert [read(server, path)["items"][0]["value"] for path in (HITS, QUEUE)] == ["5", "7"]
    assert control("POST", "/metrics/set", metric | {"value": "many"}).status == 400
    assert control("POST", "/metrics/usage", {"pod": "absent", "cpu": "1"}).status == 404
