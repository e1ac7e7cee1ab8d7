"""The webhook of audit: batches, their rate, retries, losses, and its modes."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from kapiserver.apiserver.audit.backend import MAX_QUEUED_BYTES, Losses, Mode
from kapiserver.apiserver.audit.batches import MAX_CONCURRENT, Batches, BatchSettings
from kapiserver.apiserver.audit.event import AuditEvent, RecordedBody
from kapiserver.apiserver.audit.truncation import truncating
from kapiserver.apiserver.audit.webhook import AuditWebhook
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.metrics import Metrics
from kapiserver.apiserver.serving.tls.credentials import ensure_certificates
from kapiserver.apiserver.webhooks.kubeconfig import read_kubeconfig
from tests.apiserver.admission.test_kubeconfig_webhook import InstantClock
from tests.apiserver.proxy.https_server import HttpsServer, Received, Reply, kubeconfig
from tests.clock import ManualClock

POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "None", "users": ["system:apiserver"]}, {"level": "Metadata"}],
}


def event(number: int, size: int = 0) -> AuditEvent:
    body = RecordedBody("application/json", b" " * size) if size else None
    return AuditEvent({"level": "Metadata", "number": number}, body)


def encode(audit_event: AuditEvent) -> bytes:
    return b"%d\n" % audit_event.fields["number"]


def settings(**fields: Any) -> BatchSettings:
    defaults: dict[str, Any] = {
        "buffer_size": 100, "max_size": 3, "max_wait": 30.0, "qps": 0, "burst": 1,
    }  # fmt: skip
    return BatchSettings(**defaults | fields)


class Recorder:
    """Records the numbers of the events in each batch; `go_on` lets batches end."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.go_on = asyncio.Event()

    async def send(self, events: Sequence[AuditEvent]) -> None:
        self.batches.append([each.fields["number"] for each in events])
        await self.go_on.wait()


async def turns() -> None:
    """Let tasks that are ready run."""
    for _ in range(5):
        await asyncio.sleep(0)


def test_batches() -> None:
    """A full batch is sent at once, another one after the longest wait."""

    async def run() -> None:
        recorder, clock = Recorder(), ManualClock()
        batches = Batches(recorder.send, settings(), clock)
        for number in range(4):
            assert batches.add(event(number))
        await turns()
        assert recorder.batches == [[0, 1, 2]]
        clock.advance(29)
        await turns()
        assert len(recorder.batches) == 1
        clock.advance(1)
        await turns()
        assert recorder.batches == [[0, 1, 2], [3]]
        batches.add(event(4))
        recorder.go_on.set()
        await batches.stop(60)
        assert recorder.batches[2:] == [[4]]

    asyncio.run(run())


def test_full_queue() -> None:
    """A slow destination gets a few batches at a time; the queue holds so many events and bytes,
    and what cannot be sent before the end stays in it."""

    async def run() -> None:
        recorder = Recorder()
        batches = Batches(recorder.send, settings(buffer_size=2, max_size=1), ManualClock())
        accepted = [batches.add(event(number)) for number in range(MAX_CONCURRENT + 3)]
        assert accepted == [True] * (MAX_CONCURRENT + 2) + [False]
        await turns()
        assert len(recorder.batches) == MAX_CONCURRENT
        await batches.stop(0)
        assert len(batches) == 2
        large = Batches(recorder.send, settings(), ManualClock())
        assert large.add(event(1, MAX_QUEUED_BYTES))
        assert not large.add(event(2, 1))
        assert large.add(event(3))
        await large.stop(0)

    asyncio.run(run())


def test_throttle() -> None:
    """After a burst, batches are sent at the limited rate; those that wait are not lost."""

    async def run() -> None:
        recorder, clock = Recorder(), ManualClock()
        recorder.go_on.set()
        batches = Batches(recorder.send, settings(max_size=1, qps=2, burst=2), clock)
        for number in range(6):
            batches.add(event(number))
        await turns()
        assert len(recorder.batches) == 2
        for sent in (3, 4):
            clock.advance(0.5)
            await turns()
            assert len(recorder.batches) == sent
        await batches.stop(0)
        assert len(batches) == 2

    asyncio.run(run())


@pytest.fixture
def webhook(tmp_path: Path) -> Iterator[HttpsServer]:
    """A webhook that accepts every list of events."""
    server = HttpsServer(
        ensure_certificates(Config(), tmp_path / "certificates"), lambda _: Reply(b"{}")
    )
    yield server
    server.end()


def make_backend(
    server: HttpsServer, folder: Path, metrics: Metrics, clock: ManualClock, **fields: Any
) -> AuditWebhook:
    (folder / "webhook.yaml").write_text(kubeconfig(server))
    defaults: dict[str, Any] = {
        "mode": Mode.BATCH,
        "batch": settings(),
        "initial_backoff": 10.0,
        "max_bytes": 0,
        "encode": encode,
    }
    return AuditWebhook(
        read_kubeconfig(folder / "webhook.yaml", clock, purpose="audit webhook"),
        clock=clock,
        losses=Losses("webhook", metrics),
        **defaults | fields,
    )


def numbers(received: Received) -> list[int]:
    assert received.json["kind"] == "EventList"
    assert received.json["apiVersion"] == "audit.k8s.io/v1"
    items: list[int] = received.json["items"]
    return items


def test_lists(webhook: HttpsServer, tmp_path: Path) -> None:
    """Events are posted in lists of limited size; one that is too large is counted and left out."""

    async def run() -> None:
        metrics = Metrics()
        backend = make_backend(
            webhook, tmp_path, metrics, ManualClock(),
            encode=truncating(encode, 4), max_bytes=5, batch=settings(max_size=10),
        )  # fmt: skip
        for number in (1, 2, 33, 12345, 4):
            assert backend.submit(event(number)) is None
        await backend.stop()
        assert metrics.audit_events.values == {"webhook": 5}
        assert metrics.audit_errors.values == {"truncate": 1}

    asyncio.run(run())
    assert [numbers(each) for each in webhook.received] == [[1, 2], [33, 4]]


@pytest.mark.parametrize("mode", [Mode.BLOCKING, Mode.BLOCKING_STRICT])
def test_retries(webhook: HttpsServer, tmp_path: Path, mode: Mode) -> None:
    """Every failure is tried again, with growing delays; after five attempts the event is lost,
    which only mode blocking-strict tells the request."""
    statuses = [400, 200, *[500] * 5]
    webhook.respond = lambda _: Reply(b"{}", status=statuses[len(webhook.received) - 1])

    async def run() -> None:
        metrics, clock = Metrics(), InstantClock()
        backend = make_backend(webhook, tmp_path, metrics, clock, mode=mode)
        for expected in (True, mode is Mode.BLOCKING):
            future = backend.submit(event(1))
            assert future is not None
            assert await future is expected
        assert metrics.audit_errors.values == {"webhook": 1}
        assert 10 <= clock.delays[0] <= 12
        assert clock.delays[1:] == sorted(clock.delays[1:])
        await backend.stop()

    asyncio.run(run())
    assert len(webhook.received) == len(statuses)


def serve(make_server: Any, folder: Path, server: HttpsServer, **fields: Any) -> Any:
    """A server that sends its audit events to a webhook."""
    (folder / "policy.yaml").write_text(yaml.safe_dump(POLICY))
    (folder / "webhook.yaml").write_text(kubeconfig(server))
    return make_server(
        audit_policy_file=folder / "policy.yaml",
        audit_webhook_config_file=folder / "webhook.yaml",
        **fields,
    )


def test_server(make_server: Any, webhook: HttpsServer, tmp_path: Path) -> None:
    """A server sends the events of its requests, those before its end included, and writes them to
    its log too."""
    log = tmp_path / "audit.log"
    server = serve(make_server, tmp_path, webhook, audit_log_path=str(log))
    for _ in range(3):
        assert server.api.get("/version").status == 200
    server.end()
    sent = [item for each in webhook.received for item in each.json["items"]]
    assert [item["requestURI"] for item in sent] == ["/version"] * 3
    assert [json.loads(line) for line in log.read_bytes().splitlines()] == sent


def test_slow_webhook(make_server: Any, webhook: HttpsServer, tmp_path: Path) -> None:
    """Nobody waits for a webhook that does not respond; events that find the queue full are
    dropped, and counted in the metrics."""
    called = threading.Event()

    def wait(_: Received) -> Reply:
        called.set()
        webhook.over.wait(60)
        return Reply(b"{}")

    webhook.respond = wait
    server = serve(
        make_server, tmp_path, webhook,
        audit_webhook_batch_max_size=1, audit_webhook_batch_buffer_size=1,
    )  # fmt: skip
    for _ in range(MAX_CONCURRENT + 5):
        assert server.api.get("/version").status == 200
    assert called.wait(60)
    text = server.api.get("/metrics").body.decode()
    assert 'apiserver_audit_error_total{plugin="webhook"} 4' in text
    assert f'apiserver_audit_event_total{{plugin="webhook"}} {MAX_CONCURRENT + 5}' in text
    webhook.over.set()
    server.end()


def test_dead_webhook(make_server: Any, webhook: HttpsServer, tmp_path: Path) -> None:
    """Requests succeed while nothing listens where the webhook should be."""
    server = serve(
        make_server, tmp_path, webhook,
        audit_webhook_batch_max_size=1, audit_webhook_initial_backoff=0.001,
    )  # fmt: skip
    webhook.end()
    for _ in range(3):
        assert server.api.get("/version").status == 200


def test_blocking(make_server: Any, webhook: HttpsServer, tmp_path: Path) -> None:
    """In mode blocking a stream starts after the webhook has the event of its start."""
    server = serve(make_server, tmp_path, webhook, audit_webhook_mode="blocking")
    with server.api.watch("/api/v1/namespaces?watch=1") as stream:
        assert stream.event()
        stages = [item["stage"] for each in webhook.received for item in each.json["items"]]
    assert stages == ["ResponseStarted"]


def test_end_of_response(make_server: Any, webhook: HttpsServer, tmp_path: Path) -> None:
    """In mode blocking a response ends after the webhook has the event of its completion: a body,
    an error, a list in slices and a stream."""
    server = serve(make_server, tmp_path, webhook, audit_webhook_mode="blocking")
    maps = "/api/v1/namespaces/default/configmaps"
    for number in range(3):
        obj = {"metadata": {"name": f"m{number}"}, "data": {"a": "x" * 200_000}}
        assert server.api.post(maps, obj).status == 201
    webhook.received.clear()
    sent = []
    for path, code in ((f"{maps}/m1", 200), (f"{maps}/none", 404), (maps, 200)):
        assert server.api.get(path).status == code
        sent.append((path, "ResponseComplete", code))
        assert stages(webhook) == sent
    watch = f"{maps}?watch=1&timeoutSeconds=1&resourceVersion=0"
    with server.api.watch(watch) as stream:
        while stream.event():
            pass
        assert stages(webhook)[-1] == (watch, "ResponseComplete", 200)


def stages(webhook: HttpsServer) -> list[tuple[str, str, int]]:
    return [
        (item["requestURI"], item["stage"], item["responseStatus"]["code"])
        for each in webhook.received
        for item in each.json["items"]
    ]


def test_lost_receipt(webhook: HttpsServer, tmp_path: Path) -> None:
    """In mode blocking-strict a request fails, too, if its event finds the queue full."""
    webhook.respond = lambda _: Reply(b"{}") if webhook.over.wait(60) else Reply(b"")

    async def run() -> None:
        backend = make_backend(
            webhook, tmp_path, Metrics(), ManualClock(),
            mode=Mode.BLOCKING_STRICT, batch=settings(buffer_size=1),
        )  # fmt: skip
        first = backend.submit(event(1))
        assert first is not None
        second = backend.submit(event(2))
        assert second is not None
        assert not await second
        webhook.over.set()
        assert await first
        await backend.stop()

    asyncio.run(run())
