"""Batches of the audit log, incomplete settings, and the latency of slow requests."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from kapiserver.apiserver.audit.backend import Mode
from kapiserver.apiserver.audit.batches import TokenBucket
from kapiserver.apiserver.audit.event import AuditEvent, RecordedBody, RequestRecord
from kapiserver.apiserver.audit.log_file import LogFile
from kapiserver.apiserver.audit.policy import AuditPolicy
from kapiserver.apiserver.audit.writer import MAX_BATCH_BYTES
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.metrics import Metrics
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.request_info import parse_request_info
from kapiserver.app import serve
from kapiserver.cli import parser
from kapiserver.server_config import config_of
from kapiserver.spans import Span
from tests.apiserver.audit.auditkit import counted, event, new_writer
from tests.clock import ManualClock

POLICY = '{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}'


def test_batches(tmp_path: Path) -> None:
    """The thread waits for a full batch, but not at the end, and writes it at once; the rate of
    batches is limited."""
    metrics = Metrics()
    written = threading.Semaphore(0)

    class CountingFile(LogFile):
        def write(self, lines: Sequence[bytes]) -> None:
            super().write(lines)
            written.release()

    log = tmp_path / "log"
    file = CountingFile(str(log), now=lambda: 0.0)
    writer = new_writer(file, metrics, Mode.BATCH, max_size=2, max_wait=3600, qps=1e-6, burst=1)
    writer.start()
    for number in range(2):
        assert log.read_text() == ""
        writer.submit(event(number))
    assert written.acquire(timeout=60)
    assert log.read_text() == "0\n1\n"
    for number in range(2, 5):  # a full batch waits for the rate, the last event for another
        writer.submit(event(number))
    asyncio.run(writer.stop())
    assert log.read_text() == "0\n1\n2\n3\n4\n"
    assert counted(metrics) == (5, 0)


def test_large_batch(tmp_path: Path) -> None:
    """A batch ends with the event that makes its bodies larger than the limit."""
    batches: list[Sequence[bytes]] = []

    class RecordingFile(LogFile):
        def write(self, lines: Sequence[bytes]) -> None:
            batches.append(lines)

    file = RecordingFile(str(tmp_path / "log"), now=lambda: 0.0)
    writer = new_writer(file, Metrics(), Mode.BATCH, max_size=10, max_wait=3600)
    body = RecordedBody("text/plain", b" " * (MAX_BATCH_BYTES // 2 + 1))
    for number in range(5):
        writer.submit(AuditEvent({"number": number}, body))
    writer.start()
    asyncio.run(writer.stop())
    assert batches == [[b"0\n", b"1\n"], [b"2\n", b"3\n"], [b"4\n"]]


def test_throttled(tmp_path: Path) -> None:
    """A batch beyond the burst waits for the rate."""
    clock = ManualClock()
    bucket = TokenBucket(2, 1, clock)
    assert [bucket.reserve() for _ in range(3)] == [0, 0.5, 1]
    clock.time += 10
    assert [bucket.reserve() for _ in range(2)] == [0, 0.5]
    assert TokenBucket(0, 0, clock).reserve() == 0


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"audit_log_path": "log"}, "no audit policy file"),
        ({"audit_webhook_config_file": "hook"}, "recorded for the webhook backend"),
        ({"audit_policy_file": "policy"}, "no audit backend"),
    ],
)
def test_incomplete_settings(
    settings: dict[str, str], text: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A policy without a backend, or a backend without a policy, records nothing; the server says
    so and starts."""
    (tmp_path / "policy").write_text(POLICY)
    config = Config.of(
        secure_port=None, **{name: tmp_path / value for name, value in settings.items()}
    )

    async def run() -> None:
        async with serve(config) as running:
            assert running.cluster.server.audit is None

    asyncio.run(run())
    assert text in caplog.text
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize("seconds", [0.4, 0.6])
def test_latency(seconds: float) -> None:
    """The completion of a request of more than half a second says where the time went."""
    request = Request(
        method="GET", path="/x", query={}, headers={}, info=parse_request_info("GET", "/x", {}),
        read_body=no_body,
    )  # fmt: skip
    spent = {"authentication": 0.001, "etcd": 0.25, "body": 0.1}
    request.trace.spans += [Span(name, 0.0, end) for name, end in spent.items()]
    decision = AuditPolicy({"rules": [{"level": "Metadata"}]}).decide(request.user, request.info)
    record = RequestRecord(request, decision, 1000.0)
    assert "annotations" not in record.event("RequestReceived", 1000.0 + seconds).fields
    annotations = record.event("ResponseComplete", 1000.0 + seconds).fields.get("annotations")
    prefix = "apiserver.latency.k8s.io"
    expected = {
        f"{prefix}/authentication": "1ms",
        f"{prefix}/etcd": "250ms",
        f"{prefix}/total": "600ms",
    }
    assert annotations == (expected if seconds > 0.5 else None)


async def no_body(_limit: int) -> bytes:
    return b""


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--audit-log-mode=batch --audit-log-batch-throttle-enable",
         "invalid audit batch log throttle QPS 0, must be a positive number"),
        ("--audit-log-mode=batch --audit-log-batch-throttle-enable "
         "--audit-log-batch-throttle-qps=1",
         "invalid audit batch log throttle burst 0, must be a positive number"),
        ("--audit-log-mode=batch --audit-log-batch-throttle-enable "
         "--audit-log-batch-throttle-qps=1 --audit-log-batch-throttle-burst=2", ""),
        ("--audit-log-batch-throttle-enable", ""),
    ],
)  # fmt: skip
def test_throttle_flags(flags: str, message: str) -> None:
    """A throttle needs a rate and a burst; the messages are kube-apiserver's."""
    options = parser().parse_args(["serve", *flags.split()])
    if not message:
        assert config_of(options).audit.audit_log_batch_throttle_enable
        return
    with pytest.raises(ValueError, match=message):
        config_of(options)
