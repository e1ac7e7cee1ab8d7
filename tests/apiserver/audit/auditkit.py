"""Writers of audit events, and the events themselves, for tests."""

from __future__ import annotations

from typing import Any

from kapiserver.apiserver.audit.backend import Encoder, Losses, Mode
from kapiserver.apiserver.audit.batches import BatchSettings
from kapiserver.apiserver.audit.event import AuditEvent
from kapiserver.apiserver.audit.log_file import LogFile
from kapiserver.apiserver.audit.writer import AuditWriter
from kapiserver.apiserver.metrics import Metrics
from tests.clock import ManualClock


def event(number: int) -> AuditEvent:
    return AuditEvent({"level": "Metadata", "number": number})


def encode(audit_event: AuditEvent) -> bytes:
    return b"%d\n" % audit_event.fields["number"]


def counted(metrics: Metrics, plugin: str = "log") -> tuple[float, float]:
    """The events that a backend got, and those that it lost."""
    return metrics.audit_events.values[plugin], metrics.audit_errors.values.get(plugin, 0)


def new_writer(
    file: LogFile,
    metrics: Metrics,
    mode: Mode = Mode.BLOCKING,
    encode: Encoder = encode,
    clock: ManualClock | None = None,
    **changes: Any,
) -> AuditWriter:
    settings: dict[str, Any] = {
        "buffer_size": 10, "max_size": 1, "max_wait": 0, "qps": 0, "burst": 0, **changes,
    }  # fmt: skip
    return AuditWriter(
        file,
        encode,
        mode=mode,
        batch=BatchSettings(**settings),
        clock=clock or ManualClock(),
        losses=Losses("log", metrics),
    )
