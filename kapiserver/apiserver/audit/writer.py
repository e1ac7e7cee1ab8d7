"""Writes audit events to a log file: in a thread, or while the request waits.

Mirrors plugin/pkg/audit/buffered and plugin/pkg/audit/log of k8s.io/apiserver.
"""

from __future__ import annotations

import asyncio
import queue
import threading

from kapiserver.apiserver.audit.backend import (
    CLOSE_SECONDS,
    MAX_QUEUED_BYTES,
    Encoder,
    Losses,
    Mode,
)
from kapiserver.apiserver.audit.batches import BatchSettings, TokenBucket
from kapiserver.apiserver.audit.event import AuditEvent
from kapiserver.apiserver.audit.log_file import LogFile
from kapiserver.apiserver.audit.truncation import PLUGIN as TRUNCATE
from kapiserver.apiserver.audit.truncation import EventTooLarge
from kapiserver.storage.clock import Clock


class AuditWriter:
    """Writes events to a log file.

    encode      returns the line of an event
    mode        in batch mode a thread writes; in other modes the caller waits for the file
    batch       how the thread collects events, and how many may wait for it; more are dropped
    losses      counts all events, and the events that were dropped or not written
    """

    def __init__(
        self,
        file: LogFile,
        encode: Encoder,
        *,
        mode: Mode,
        batch: BatchSettings,
        clock: Clock,
        losses: Losses,
    ) -> None:
        self._file = file
        self._encode = encode
        self._mode = mode
        self._losses = losses
        self._batch = batch
        self._clock = clock
        self._bucket = TokenBucket(batch.qps, batch.burst, clock)
        self._ending = threading.Event()
        self._is_last = False
        self._queue: queue.Queue[AuditEvent | None] = queue.Queue(batch.buffer_size)
        # The loop alone writes the first, the thread alone the second: neither needs a lock.
        self._bytes_queued = self._bytes_taken = 0
        self._thread: threading.Thread | None = None
        if mode is Mode.BATCH:
            self._thread = threading.Thread(target=self._run, name="audit", daemon=True)

    def start(self) -> None:
        """Open the file and begin to write. Raises OSError."""
        self._file.open()
        if self._thread is not None:
            self._thread.start()

    async def stop(self) -> None:
        """Write the queued events and close the file; give up after CLOSE_SECONDS."""
        await asyncio.to_thread(self._stop)

    def _stop(self) -> None:
        self._ending.set()
        if self._thread is not None:
            try:
                self._queue.put(None, timeout=CLOSE_SECONDS)
            except queue.Full:
                return  # the thread waits for the disk, which has the file
            self._thread.join(CLOSE_SECONDS)
        self._file.close()

    def submit(self, event: AuditEvent) -> asyncio.Future[bool] | None:
        """Write an event, or queue it. An event that finds the queue full is dropped and
        counted."""
        self._losses.add_event()
        if self._thread is None:
            return self._write_now(event)
        if self._bytes_queued - self._bytes_taken + event.body_bytes > MAX_QUEUED_BYTES:
            self._losses.add_loss(1, "the bodies in its queue are too large")
            return None
        try:
            self._queue.put_nowait(event)
        except queue.Full:
            self._losses.add_loss(1, "its queue is full")
        else:
            self._bytes_queued += event.body_bytes
        return None

    def _write_now(self, event: AuditEvent) -> asyncio.Future[bool] | None:
        if self._write(event) or self._mode is not Mode.BLOCKING_STRICT:
            return None
        failed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        failed.set_result(False)
        return failed

    def _run(self) -> None:
        while events := self._next_batch():
            self._ending.wait(self._bucket.reserve())
            for event in events:
                self._bytes_taken += event.body_bytes
                self._write(event)

    def _next_batch(self) -> list[AuditEvent]:
        """Return the next events; none at the end. Waits for the first one, and then for more until
        the batch is full or `max_wait` is over."""
        event = None if self._is_last else self._queue.get()
        events: list[AuditEvent] = []
        end = self._clock.now() + self._batch.max_wait
        while event is not None:
            events.append(event)
            if len(events) >= self._batch.max_size:
                return events
            try:
                event = self._queue.get(timeout=self._seconds_until(end))
            except queue.Empty:
                return events
        self._is_last = True
        return events

    def _seconds_until(self, end: float) -> float:
        return 0.0 if self._ending.is_set() else max(0.0, end - self._clock.now())

    def _write(self, event: AuditEvent) -> bool:
        try:
            self._file.write(self._encode(event))
        except EventTooLarge as error:
            self._losses.add_loss(1, str(error), plugin=TRUNCATE)
        except Exception as error:  # an event that cannot be written must not end the thread
            self._losses.add_loss(1, str(error))
        else:
            self._losses.reset()
            return True
        return False
