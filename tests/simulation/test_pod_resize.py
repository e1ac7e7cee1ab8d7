"""Pods that get other resources while they run."""

from __future__ import annotations

import json

import pytest

from kapiserver.simulation.pod_admission import refusal
from kapiserver.simulation.pod_life import Host
from tests.simulation.pods import HOST, Lived, pod_of

NO_ROOM = "Node didn't have enough resource: cpu, requested: 9000, used: 0, capacity: 2000"


def app(cpu="1", memory="1Gi", limits=None, **fields):
    resources = {"requests": {"cpu": cpu, "memory": memory}}
    return {"name": "app", "resources": resources | ({"limits": limits} if limits else {})} | fields


def resize(lived, **requests):
    """What a PUT of the subresource `resize` does."""
    container = lived.pod["spec"]["containers"][0]
    present = container["resources"]
    container["resources"] = present | {"requests": present["requests"] | requests}
    lived.pod["metadata"]["generation"] += 1
    return lived


def container_of(lived):
    return lived.pod["status"]["containerStatuses"][0]


def test_resize():
    """The node allocates resources, then the container has them, without a restart."""
    lived = Lived(pod_of(app())).run(60)
    count = len(lived.written)
    resize(lived, cpu="1500m").run()
    first, second = lived.written[count:]
    (progress,) = [each for each in first["conditions"] if each["type"] == "PodResizeInProgress"]
    assert (progress["status"], progress["observedGeneration"]) == ("True", 2)
    assert first["containerStatuses"][0]["allocatedResources"]["cpu"] == "1500m"
    assert first["containerStatuses"][0]["resources"]["requests"]["cpu"] == "1"
    assert second["containerStatuses"][0]["resources"]["requests"]["cpu"] == "1500m"
    assert "PodResizeInProgress" not in [each["type"] for each in second["conditions"]]
    assert (container_of(lived)["restartCount"], second["observedGeneration"]) == (0, 2)


def test_events():
    lived = resize(Lived(pod_of(app())).run(), cpu="2").run()
    started, completed = lived.events[-2:]
    assert (started.reason, completed.reason) == ("ResizeStarted", "ResizeCompleted")
    text, _, summary = started.message.partition(": ")
    assert text == "Pod resize started"
    assert json.loads(summary) == {
        "containers": [
            {"name": "app", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}},
        ],
        "generation": 2,
    }


@pytest.mark.parametrize(
    ("requests", "restarts"), [({"memory": "2Gi"}, 1), ({"cpu": "2"}, 0), ({"cpu": "1000m"}, 0)]
)
def test_resize_policy(requests, restarts):
    """A container restarts only for a resource whose policy says so, and at once."""
    policy = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    lived = Lived(pod_of(app(resizePolicy=policy))).run(60)
    resize(lived, **requests).run()
    assert container_of(lived)["restartCount"] == restarts
    assert lived.states()["app"].endswith("ready")
    message = "Container app resize requires restart"
    assert (message in [each.message for each in lived.events]) == bool(restarts)


def test_same_quantities():
    """A quantity that is written differently is no resize."""
    lived = Lived(pod_of(app())).run(60)
    count = len(lived.written)
    resize(lived, cpu="1000m").run()
    assert [each["observedGeneration"] for each in lived.written[count:]] == [2]


def test_no_room():
    """A resize that does not fit is deferred, and done when there is room."""
    lived = Lived(pod_of(app())).run(60)
    lived.host = Host(HOST.pod_ips, HOST.host_ips, refusal=NO_ROOM)
    resize(lived, cpu="9").run(10)
    assert lived.condition("PodResizePending") == ("True", "Deferred", NO_ROOM)
    assert container_of(lived)["allocatedResources"]["cpu"] == "1"
    event = lived.events[-1]
    assert (event.type, event.reason) == ("Warning", "ResizeDeferred")
    assert event.message.startswith("Pod resize Deferred: {")
    assert json.loads(event.message.partition(": ")[2])["error"] == NO_ROOM
    count = len(lived.written)
    lived.run(10)
    assert len(lived.written) == count
    lived.host = HOST
    lived.run()
    assert container_of(lived)["resources"]["requests"]["cpu"] == "9"
    assert lived.condition("PodResizePending") is None


def test_restart_while_deferred():
    """A container that crashes while its resize is deferred starts with what it has."""
    lived = Lived(pod_of(app())).run(60)
    lived.host = Host(refusal=NO_ROOM)
    resize(lived, cpu="9").run()
    lived.annotate("exit-code", "1").run(1)
    assert container_of(lived)["restartCount"] == 1
    assert container_of(lived)["resources"]["requests"]["cpu"] == "1"


def test_revoked_resize():
    """A resize that is taken back ends its condition."""
    lived = Lived(pod_of(app())).run(60)
    lived.host = Host(refusal=NO_ROOM)
    resize(lived, cpu="9").run()
    lived.host = HOST
    resize(lived, cpu="1").run()
    assert lived.condition("PodResizePending") is None


NODE = {"status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "10"}}}


@pytest.mark.parametrize(
    ("cpu", "memory", "reason"),
    [
        ("1", "1Gi", ""),
        ("1500m", "3Gi", ""),
        ("9", "1Gi", "cpu, requested: 9000, used: 500, capacity: 2000"),
        ("1", "5Gi", "memory, requested: 5368709120, used: 1073741824, capacity: 4294967296"),
    ],
)
def test_refusal(cpu, memory, reason):
    """A node has room for what other pods leave."""
    expected = f"Node didn't have enough resource: {reason}" if reason else ""
    assert refusal(pod_of(app(cpu, memory)), [pod_of(app("500m"))], NODE) == expected
