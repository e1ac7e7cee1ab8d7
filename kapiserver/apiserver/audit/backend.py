"""The interface of an audit backend, a destination of events.

Mirrors audit.Backend of k8s.io/apiserver and its modes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from enum import Enum
from typing import Protocol, TypeAlias

from kapiserver.apiserver.audit.event import AuditEvent
from kapiserver.apiserver.metrics import Metrics

Encoder: TypeAlias = Callable[[AuditEvent], bytes]
"""Returns an event as one line, which ends with a newline."""

CLOSE_SECONDS = 5.0
"""How long the end of a server waits until the queued events are written."""
MAX_QUEUED_BYTES = 64 << 20
"""The maximum size of the bodies in the events that wait for one backend. More are dropped."""

_log = logging.getLogger(__name__)


class Mode(Enum):
    """Whether a request waits until its events are written. In mode batch it does not. In mode
    blocking-strict it fails if its event of stage RequestReceived is not written."""

    BATCH = "batch"
    BLOCKING = "blocking"
    BLOCKING_STRICT = "blocking-strict"


class AuditBackend(Protocol):
    """A destination of events."""

    def start(self) -> None:
        """Begin to write. Raises OSError."""

    async def stop(self) -> None:
        """Write the queued events, for at most CLOSE_SECONDS."""

    def submit(self, event: AuditEvent) -> asyncio.Future[bool] | None:
        """Write an event, or queue it. Return a future if a request has to wait for the event, or
        must fail because its result is false."""


class Losses:
    """Counts the events that a backend gets and loses; the first loss in a row is logged."""

    def __init__(self, plugin: str, metrics: Metrics) -> None:
        self._plugin = plugin
        self._metrics = metrics
        self._failing = False

    def add_event(self) -> None:
        """Count an event."""
        self._metrics.audit_events.add(self._plugin)

    def reset(self) -> None:
        """Log the next loss again."""
        self._failing = False

    def add_loss(self, count: int, reason: str, *, plugin: str = "") -> None:
        """Count events that were dropped or not written, under another plugin if one is given."""
        self._metrics.audit_errors.add(plugin or self._plugin, count)
        if not self._failing:
            _log.warning("audit events are lost: %s: %s", self._plugin, reason)
        self._failing = True


def lost_event(mode: Mode) -> asyncio.Future[bool] | None:
    """Return what `AuditBackend.submit` returns for an event that it drops: in mode blocking-strict
    the request fails."""
    if mode is not Mode.BLOCKING_STRICT:
        return None
    failed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    failed.set_result(False)
    return failed
