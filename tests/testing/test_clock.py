"""The clock of a test server: frozen, advanced, and all that follows it."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest

from kapiserver.testing import TestServer
from kapiserver.testing.determinism.clock import Duration, TestClock, parse_seconds
from tests.controllers.signing import encoded_request, subject
from tests.jobs import POD
from tests.testing.http_client import HttpClient

MAPS = "/api/v1/namespaces/default/configmaps"
EVENTS = "/api/v1/namespaces/default/events"


def _event(name: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "involvedObject": {"namespace": "default", "kind": "Pod", "name": "p"},
        "reason": "Tested",
    }


@pytest.mark.parametrize(
    ("duration", "seconds"),
    [
        ("10m", 600),
        ("1h30m", 5400),
        ("250ms", 0.25),
        ("7d", 604800),
        (2.5, 2.5),
        (timedelta(hours=1, milliseconds=5), 3600.005),
    ],
)
def test_durations(duration: Duration, seconds: float) -> None:
    """A duration is Go's text, days, a number of seconds, or a timedelta."""
    assert parse_seconds(duration) == seconds


@pytest.mark.parametrize(
    "duration", ["", "10", "ten minutes", "-1s", -1, float("nan"), -timedelta(1)]
)
def test_no_duration(duration: Duration) -> None:
    """Other text, and negative numbers, are refused."""
    with pytest.raises(ValueError, match="is not a duration"):
        parse_seconds(duration)


def test_timers_run_in_order() -> None:
    """Timers run in the order of their times, and see their own time; one that is set by another
    and falls due is run too; a cancelled one is not."""
    calls: list[tuple[str, float]] = []

    async def run() -> None:
        async with TestServer() as server:
            clock = server.clock
            clock.freeze()
            start = clock.now()

            def record(name: str) -> None:
                calls.append((name, round(clock.now() - start)))

            def first() -> None:
                record("first")
                clock.call_later(30, lambda: record("nested"))
                third.cancel()

            clock.call_later(40, lambda: record("second"))
            clock.call_later(20, first)
            third = clock.call_later(50, lambda: record("third"))
            clock.call_later(61, lambda: record("late"))
            await clock.advance_async("1m")
            assert clock.now() == start + 60

    asyncio.run(run())
    assert calls == [("first", 20), ("second", 40), ("nested", 50)]


def test_events_expire() -> None:
    """An advance over the time to live of an Event deletes it before it returns, and watches see
    that."""
    with TestServer() as server:
        client = HttpClient(server)
        _, created = client("POST", EVENTS, _event("e"))
        version = created["metadata"]["resourceVersion"]
        server.clock.advance("59m")
        assert client("GET", f"{EVENTS}/e")[0] == 200
        server.clock.advance("2m")
        assert client("GET", f"{EVENTS}/e")[0] == 404
        with client.watch(f"{EVENTS}?watch=1&resourceVersion={version}") as stream:
            assert json.loads(stream.readline())["type"] == "DELETED"


def test_tokens_expire() -> None:
    """A token of a service account is refused when its time is over."""
    with TestServer() as server:
        client = HttpClient(server)
        path = "/api/v1/namespaces/default/serviceaccounts"
        assert client("POST", path, {"metadata": {"name": "robot"}})[0] == 201
        _, review = client("POST", f"{path}/robot/token", {"spec": {"expirationSeconds": 600}})
        account = HttpClient(server, token=review["status"]["token"])
        server.clock.advance("9m")
        assert account("GET", "/api")[0] == 200
        server.clock.advance("2m")
        assert account("GET", "/api")[0] == 401


def test_old_signing_requests_are_deleted() -> None:
    """The cleaner of signing requests deletes a pending one after a day."""
    with TestServer() as server:
        client = HttpClient(server)
        path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
        body = {
            "metadata": {"name": "c"},
            "spec": {
                "request": encoded_request(subject("c")),
                "signerName": "example.com/none",
                "usages": ["client auth"],
            },
        }
        assert client("POST", path, body)[0] == 201
        server.clock.advance("23h")
        assert client("GET", f"{path}/c")[0] == 200
        server.clock.advance("3h")
        assert client("GET", f"{path}/c")[0] == 404


def test_finished_jobs_are_deleted() -> None:
    """A finished Job is deleted when `ttlSecondsAfterFinished` have passed."""
    with TestServer() as server:
        client = HttpClient(server)
        path = "/apis/batch/v1/namespaces/default/jobs"
        spec = {"ttlSecondsAfterFinished": 3600, "template": POD}
        assert client("POST", path, {"metadata": {"name": "j"}, "spec": spec})[0] == 201
        _, job = client("GET", f"{path}/j/status")
        now = server.clock.time.strftime("%Y-%m-%dT%H:%M:%SZ")
        conditions = [
            {"type": each, "status": "True", "lastTransitionTime": now}
            for each in ("FailureTarget", "Failed")
        ]
        job["status"] = {"startTime": now, "conditions": conditions}
        assert client("PUT", f"{path}/j/status", job)[0] == 200
        server.clock.advance("59m")
        assert client("GET", f"{path}/j")[0] == 200
        server.clock.advance("2m")
        assert client("GET", f"{path}/j")[0] == 404


def test_frozen_time() -> None:
    """While the clock is frozen all objects get the same time, and their age grows only by
    advances; a resumed clock flows from there."""
    with TestServer() as server:
        client = HttpClient(server)
        server.clock.freeze()
        now = server.clock.time.strftime("%Y-%m-%dT%H:%M:%SZ")
        for name in ("a", "b"):
            _, created = client("POST", MAPS, {"metadata": {"name": name}})
            assert created["metadata"]["creationTimestamp"] == now
        server.clock.advance("3h")
        frozen_at = server.clock.now()
        assert server.clock.now() == frozen_at
        server.clock.resume()
        assert server.clock.now() > frozen_at
        assert not server.clock.frozen


def test_quotas_are_counted_while_frozen() -> None:
    """Short delays of controllers pass in real time while the clock is frozen, and at once in an
    advance."""
    with TestServer() as server:
        client = HttpClient(server)
        server.clock.freeze()
        quotas = "/api/v1/namespaces/default/resourcequotas"
        client("POST", quotas, {"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "9"}}})
        server.clock.advance("3s")
        assert client("GET", f"{quotas}/q")[1]["status"]["used"] == {"configmaps": "1"}


def test_advance_on_the_servers_loop() -> None:
    """Code on the server's loop must await `advance_async`."""

    async def run() -> None:
        async with TestServer() as server:
            with pytest.raises(RuntimeError, match="use `await`"):
                server.clock.advance("1s")
            await server.clock.advance_async("1s")

    asyncio.run(run())


def test_long_advance() -> None:
    """A month takes few steps, and timers that repeat run in it."""
    with TestServer() as server:
        server.clock.freeze()
        before = server.clock.now()
        server.clock.advance("30d")
        assert server.clock.now() - before == 30 * 86400
        assert HttpClient(server)("GET", "/version")[0] == 200


def test_is_no_test_class() -> None:
    """Pytest does not collect the clock from modules that import it."""
    assert TestClock.__test__ is False
