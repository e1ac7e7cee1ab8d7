"""Waiting for conditions, convergence, hot loops: results and messages of failures."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from kapiserver.testing import TestServer
from kapiserver.testing.history.conditions import parse_condition
from tests.testing.http_client import MERGE, HttpClient

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def server() -> Iterator[TestServer]:
    with TestServer() as server:
        yield server


@pytest.fixture
def client(server: TestServer) -> HttpClient:
    server.requests.clear()
    return HttpClient(server)


def _map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


def test_wait_for_a_change_by_another_thread(server: TestServer, client: HttpClient) -> None:
    """Waiting ends with the write that meets the condition."""
    client("POST", MAPS, _map("w", k="1"))
    patch = threading.Thread(
        target=lambda: client("PATCH", f"{MAPS}/w", {"data": {"k": "2"}}, type=MERGE)
    )
    patch.start()
    obj = server.objects.wait_for("configmap/w", "jsonpath={.data.k}=2")
    patch.join()
    assert obj is not None
    assert obj["data"] == {"k": "2"}
    client("DELETE", f"{MAPS}/w")
    assert server.objects.wait_for("cm/w", "delete") is None


def test_wait_for_with_a_function(server: TestServer, client: HttpClient) -> None:
    """A condition may be a function of the object."""
    client("POST", MAPS, _map("f", k="1"))
    server.objects.wait_for("cm/f", lambda obj: obj and obj["data"]["k"] == "1")
    server.objects.wait_for("namespace/default", "jsonpath={.status.phase}=Active")


def test_wait_for_names_what_it_saw(server: TestServer, client: HttpClient) -> None:
    """At the time-out the message has the object, its last revisions and its Events."""
    client("POST", MAPS, _map("late", k="1"))
    client("PATCH", f"{MAPS}/late", {"data": {"k": "2"}}, type=MERGE)
    event = {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "ConfigMap", "namespace": "default", "name": "late"},
        "type": "Warning",
        "reason": "TooSlow",
        "message": "nobody writes it",
    }
    client("POST", "/api/v1/namespaces/default/events", event)
    with pytest.raises(AssertionError) as failure:
        server.objects.wait_for("cm/late", "jsonpath={.data.k}=3", timeout="1ms")
    message = str(failure.value)
    assert message.startswith(
        "cm/late in namespace default has not met jsonpath={.data.k}=3 within"
    )
    assert '    k: "2"' in message
    assert "managedFields" not in message
    assert 'data.k: "1" -> "2"' in message
    assert "Warning TooSlow: nobody writes it" in message


def test_wait_for_what_is_not_there(server: TestServer) -> None:
    """The message says that there is no such object; an unknown kind is a ValueError."""
    with pytest.raises(AssertionError, match="there is no such object\nno events"):
        server.objects.wait_for("pod/none", "create", timeout="1ms")
    with pytest.raises(ValueError, match="has no resource 'widget'"):
        server.objects.wait_for("widget/none", "create", timeout="1ms")
    with pytest.raises(ValueError, match="has no resource 'widget'"):
        server.objects.wait_for("widget/none", "delete")
    for target in ("none", "pod/", "/none"):
        with pytest.raises(ValueError, match="write kind/name"):
            server.objects.wait_for(target, "delete")
    for condition in ("ready", "condition="):
        with pytest.raises(ValueError, match="is not a condition"):
            server.objects.wait_for("pod/none", condition)


READY = {
    "metadata": {"generation": 2},
    "status": {
        "phase": "Running",
        "flag": True,
        "conditions": [
            {"type": "Ready", "status": "True", "observedGeneration": 2},
            {"type": "Old", "status": "True", "observedGeneration": 1},
            {"type": "Bad", "status": "False"},
        ],
    },
}


@pytest.mark.parametrize(
    ("condition", "is_met"),
    [
        ("condition=Ready", True),
        ("condition=ready=true", True),
        ("condition=Old", False),
        ("condition=Bad=False", True),
        ("condition=Other", False),
        ("jsonpath={.status.phase}=Running", True),
        ("jsonpath='{.status.phase}'=Running", True),
        ("jsonpath=.status.phase=Running", True),
        ("jsonpath={.status.phase}", True),
        ("jsonpath={.status.none}", False),
        ("jsonpath={.status.flag}=true", True),
        ('jsonpath={.status.conditions[?(@.type=="Ready")].status}=True', True),
        ("create", True),
        ("delete", False),
    ],
)
def test_conditions(condition: str, is_met: bool) -> None:
    """Conditions are those of `kubectl wait --for`."""
    assert parse_condition(condition)(READY) == is_met
    assert parse_condition(condition)(None) == (condition == "delete")


def test_wait_until(server: TestServer, client: HttpClient) -> None:
    """A predicate is looked at after each request."""
    request = threading.Thread(target=lambda: client("GET", f"{MAPS}/seen"))
    request.start()
    server.wait_until(lambda: server.requests.select(name="seen", status=404))
    request.join()
    with pytest.raises(AssertionError, match=r"not met within 0\.001 s"):
        server.wait_until(lambda: False, timeout="1ms")


def test_on_the_callers_loop() -> None:
    """On the caller's loop the methods with `_async` wait."""

    async def run() -> None:
        async with TestServer() as server:
            assert await server.objects.wait_for_async("namespace/default", "create")
            await server.wait_until_async(lambda: True)
            await server.objects.assert_converges_async(quiet="10ms")

    asyncio.run(run())


def test_converges(server: TestServer, client: HttpClient) -> None:
    """A server that nobody writes to has converged; one that is written to all the time has not,
    and the message names the object."""
    client("POST", MAPS, _map("busy", k="0"))
    server.objects.assert_converges(quiet="20ms")
    with pytest.raises(ValueError, match="does not fit into 1 s"):
        server.objects.assert_converges(within="1s", quiet="2s")
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            client("PATCH", f"{MAPS}/busy", {"data": {"k": str(number)}}, type=MERGE)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        server.wait_until(lambda: server.requests.select(verb="patch", name="busy"))
        with pytest.raises(AssertionError) as failure:
            server.objects.assert_converges(within="60s", quiet="60s")  # fails at a write
    finally:
        stop.set()
        writer.join()
    assert "writes of /registry/configmaps/default/busy" in str(failure.value)
    assert "data.k: " in str(failure.value)


def test_hot_loop(server: TestServer) -> None:
    """Many writes of one object by one client are a hot loop; of many objects, or by several
    clients, or over a long time, they are not."""
    client = HttpClient(server, agent="operator")
    client("POST", MAPS, _map("hot", k="0"))
    for number in range(10):
        HttpClient(server, agent=f"client-{number}")("PATCH", f"{MAPS}/hot", {}, type=MERGE)
        client("POST", MAPS, _map(f"other-{number}"))
    server.requests.assert_no_hot_loop(requests=5)
    for number in range(7):
        client("PATCH", f"{MAPS}/hot", {"data": {"k": str(number)}}, type=MERGE)
    with pytest.raises(AssertionError) as failure:
        server.requests.assert_no_hot_loop(requests=5)
    message = str(failure.value)
    expected = "hot loop: kubernetes-admin (operator) sent patch configmaps default/hot 6 times"
    assert message.startswith(expected)
    assert 'data.k: "5" -> "6"' in message
    server.requests.assert_no_hot_loop(requests=5, user_agent="client*")
    with pytest.raises(AssertionError, match=r"1 times within 0 s \(1 in all\)"):
        server.requests.assert_no_hot_loop(requests=0, user_agent="client-3")
    server.requests.clear()
    for number in range(7):
        client("PATCH", f"{MAPS}/hot", {"data": {"k": str(number)}}, type=MERGE)
        server.clock.advance("1m")
    server.requests.assert_no_hot_loop(requests=5)
