"""Sends audit events to a webhook: in batches later, or while the request waits.

Mirrors plugin/pkg/audit/webhook of k8s.io/apiserver.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Iterator, Sequence

from kapiserver.apiserver.audit.backend import CLOSE_SECONDS, Encoder, Losses, Mode, lost_event
from kapiserver.apiserver.audit.batches import Batches, BatchSettings
from kapiserver.apiserver.audit.event import AuditEvent
from kapiserver.apiserver.audit.truncation import PLUGIN as TRUNCATE
from kapiserver.apiserver.audit.truncation import EventTooLarge
from kapiserver.apiserver.webhooks.http_client import WebhookFailed
from kapiserver.apiserver.webhooks.kubeconfig import KubeconfigWebhook
from kapiserver.storage.concurrency.background_tasks import BackgroundTasks
from kapiserver.storage.concurrency.clock import Clock

_HEAD = b'{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":['
_TAIL = b"]}"


class AuditWebhook:
    """Posts lists of events to a webhook. Every failure is tried again.

    encode          returns an event as JSON
    batch           how events are collected; in the other modes, how many may wait at a time
    initial_backoff seconds between the first two attempts
    max_bytes       the most bytes of one list that has several events; 0 means no limit
    """

    def __init__(
        self,
        webhook: KubeconfigWebhook,
        encode: Encoder,
        *,
        mode: Mode,
        batch: BatchSettings,
        initial_backoff: float,
        max_bytes: int,
        clock: Clock,
        losses: Losses,
    ) -> None:
        self._webhook = webhook
        self._encode = encode
        self._mode = mode
        self._buffer_size = batch.buffer_size
        self._initial_backoff = initial_backoff
        self._max_bytes = max_bytes
        self._losses = losses
        self._batches = Batches(self._send_batch, batch, clock)
        self._tasks = BackgroundTasks[bool]()

    def start(self) -> None:
        """Do nothing: the first event opens a connection."""

    async def stop(self) -> None:
        """Send the queued events for at most CLOSE_SECONDS; the others are lost."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CLOSE_SECONDS)
        await self._batches.stop(CLOSE_SECONDS)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._batches:
            self._losses.add_loss(len(self._batches), "the server ends")
        await self._webhook.close()

    def submit(self, event: AuditEvent) -> asyncio.Future[bool] | None:
        """Queue an event, or begin to send it. An event that finds the queue full is dropped and
        counted."""
        self._losses.add_event()
        if self._mode is Mode.BATCH:
            if not self._batches.add(event):
                self._losses.add_loss(1, "its queue is full")
            return None
        if len(self._tasks) >= self._buffer_size:
            self._losses.add_loss(1, "too many events are being sent")
            return lost_event(self._mode)
        # Shielded: the event is sent even if its request is cancelled.
        return asyncio.shield(
            self._tasks.start(
                self._send_now(event), name="audit webhook", context=contextvars.Context()
            )
        )

    async def _send_now(self, event: AuditEvent) -> bool:
        is_sent = await self._send([event])
        return is_sent or self._mode is not Mode.BLOCKING_STRICT

    async def _send_batch(self, events: Sequence[AuditEvent]) -> None:
        await self._send(events)

    async def _send(self, events: Sequence[AuditEvent]) -> bool:
        """Send events; return whether all were sent. Those that were not are counted."""
        unsent = len(events)
        try:
            results = await asyncio.to_thread(self._encoded, events)
            lines = [result for result in results if isinstance(result, bytes)]
            for error in results:
                if isinstance(error, Exception):
                    self._losses.add_loss(1, str(error), plugin=_plugin(error))
            unsent = len(lines)
            for part in _parts(lines, self._max_bytes or None):
                await self._webhook.post(
                    _HEAD + b",".join(part) + _TAIL,
                    initial_backoff=self._initial_backoff,
                    should_retry=_retry_any_error,
                )
                unsent -= len(part)
        except WebhookFailed as error:
            self._losses.add_loss(unsent, str(error))
            return False
        except asyncio.CancelledError:
            self._losses.add_loss(unsent, "the server ends")
            raise
        self._losses.reset()
        return len(lines) == len(events)

    def _encoded(self, events: Sequence[AuditEvent]) -> list[bytes | Exception]:
        """Return each event as JSON, or why it cannot be encoded. Runs in a thread."""
        results: list[bytes | Exception] = []
        for event in events:
            try:
                results.append(self._encode(event))
            except Exception as error:  # one event must not take the others with it
                results.append(error)
        return results


def _plugin(error: Exception) -> str:
    return TRUNCATE if isinstance(error, EventTooLarge) else ""


def _retry_any_error(_error: WebhookFailed) -> bool:
    return True


def _parts(lines: Sequence[bytes], max_bytes: int | None) -> Iterator[list[bytes]]:
    """Yield the events in lists of at most `max_bytes`, each with one event at least."""
    part: list[bytes] = []
    size = 0
    for line in lines:
        if part and max_bytes is not None and size + len(line) > max_bytes:
            yield part
            part, size = [], 0
        part.append(line)
        size += len(line)
    if part:
        yield part
