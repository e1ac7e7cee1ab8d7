"""Writes audit events to a log file, in a thread of its own.

A file may be a pipe that nobody reads, or lie on a full disk or a network that is slow: the event
loop must not wait for it. In the blocking modes a request waits for a future, which the event loop
resolves after the thread has written the event. The thread takes all events that wait at once,
writes them at once and reports their results at once: each system call and each report may cost a
switch of threads, which costs more than writing an event.

Mirrors plugin/pkg/audit/buffered and plugin/pkg/audit/log of k8s.io/apiserver.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from kapiserver.apiserver.audit.backend import (
    CLOSE_SECONDS,
    MAX_QUEUED_BYTES,
    Encoder,
    Losses,
    Mode,
    lost_event,
)
from kapiserver.apiserver.audit.batches import BatchSettings, TokenBucket
from kapiserver.apiserver.audit.event import AuditEvent
from kapiserver.apiserver.audit.log_file import LogFile
from kapiserver.apiserver.audit.truncation import PLUGIN as TRUNCATE
from kapiserver.apiserver.audit.truncation import EventTooLarge
from kapiserver.storage.concurrency.clock import Clock

MAX_BATCH = 100
"""Events of the blocking modes that are written before their requests go on."""
MAX_BATCH_BYTES = 1 << 20
"""A batch ends with the event whose body exceeds this: its lines are in memory together."""


class _QueuedEvent(NamedTuple):
    """An event, and what its request waits for: None in batch mode."""

    event: AuditEvent
    written: asyncio.Future[bool] | None


_Results: TypeAlias = Sequence[tuple[asyncio.Future[bool], bool]]


class AuditWriter:
    """Writes events to a log file.

    encode      returns the line of an event
    mode        in batch mode requests do not wait for the thread
    batch       how many events may wait for the thread; more are dropped. In batch mode also how
                the thread collects events
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
        self._buffer_size = batch.buffer_size
        if mode is not Mode.BATCH:
            batch = BatchSettings(buffer_size=0, max_size=MAX_BATCH, max_wait=0, qps=0, burst=0)
        self._batch = batch
        self._clock = clock
        self._bucket = TokenBucket(batch.qps, batch.burst, clock)
        self._ending = threading.Event()
        self._is_last = False
        self._queue: queue.SimpleQueue[_QueuedEvent | None] = queue.SimpleQueue()
        # The loop alone changes the first two, the thread alone the others: they need no lock.
        self._queued = self._bytes_queued = 0
        self._written = self._bytes_taken = 0
        self._thread = threading.Thread(target=self._run, name="audit", daemon=True)

    def start(self) -> None:
        """Open the file and begin to write. Raises OSError."""
        self._file.open()
        self._thread.start()

    async def stop(self) -> None:
        """Write the queued events and close the file; give up after CLOSE_SECONDS."""
        await asyncio.to_thread(self._stop)

    def _stop(self) -> None:
        self._ending.set()
        self._queue.put(None)
        self._thread.join(CLOSE_SECONDS)
        if self._thread.is_alive():  # the file stalls, and still belongs to the thread
            self._losses.add_loss(self._queued - self._written, "the server ends")
        else:
            self._file.close()

    def submit(self, event: AuditEvent) -> asyncio.Future[bool] | None:
        """Queue an event. An event that finds the queue full is dropped and counted."""
        self._losses.add_event()
        reason = ""
        if self._queue.qsize() >= self._buffer_size:
            reason = "its queue is full"
        elif self._bytes_queued - self._bytes_taken + event.body_bytes > MAX_QUEUED_BYTES:
            reason = "the bodies in its queue are too large"
        if reason:
            self._losses.add_loss(1, reason)
            return lost_event(self._mode)
        written: asyncio.Future[bool] | None = None
        if self._mode is not Mode.BATCH:
            written = asyncio.get_running_loop().create_future()
        self._queued += 1
        self._bytes_queued += event.body_bytes
        self._queue.put(_QueuedEvent(event, written))
        return written

    def _resolve(self, results: _Results) -> None:
        for written, succeeded in results:
            if not written.done():  # the request was cancelled
                written.set_result(succeeded or self._mode is not Mode.BLOCKING_STRICT)

    # On the thread.

    def _run(self) -> None:
        while batch := self._next_batch():
            if (seconds := self._bucket.reserve()) > 0:
                self._ending.wait(seconds)
            self._bytes_taken += sum(queued.event.body_bytes for queued in batch)
            outcomes = self._write(batch)
            self._written += len(batch)
            results = [
                (queued.written, succeeded)
                for queued, succeeded in zip(batch, outcomes, strict=True)
                if queued.written is not None
            ]
            if results:
                loop = results[0][0].get_loop()
                with contextlib.suppress(RuntimeError):  # the loop was closed
                    loop.call_soon_threadsafe(self._resolve, results)

    def _next_batch(self) -> list[_QueuedEvent]:
        """Return the next events; none at the end. Waits for the first one, and then for more until
        the batch is full or `max_wait` is over."""
        queued = None if self._is_last else self._queue.get()
        batch: list[_QueuedEvent] = []
        body_bytes = 0
        end = self._clock.now() + self._batch.max_wait
        while queued is not None:
            batch.append(queued)
            body_bytes += queued.event.body_bytes
            if len(batch) >= self._batch.max_size or body_bytes > MAX_BATCH_BYTES:
                return batch
            try:
                queued = self._queue.get(timeout=self._seconds_until(end))
            except queue.Empty:
                return batch
        self._is_last = True
        return batch

    def _seconds_until(self, end: float) -> float:
        return 0.0 if self._ending.is_set() else max(0.0, end - self._clock.now())

    def _write(self, batch: Sequence[_QueuedEvent]) -> list[bool]:
        """Write the events that can be encoded, and return which of them were written."""
        lines = [self._line(queued.event) for queued in batch]
        if encoded := [line for line in lines if line]:
            try:
                self._file.write(encoded)
            except Exception as error:  # events that cannot be written must not end the thread
                self._losses.add_loss(len(encoded), str(error))
                return [False] * len(batch)
            self._losses.reset()
        return [bool(line) for line in lines]

    def _line(self, event: AuditEvent) -> bytes:
        """Return the line of an event; b"" for an event that cannot be encoded."""
        try:
            return self._encode(event)
        except EventTooLarge as error:
            self._losses.add_loss(1, str(error), plugin=TRUNCATE)
        except Exception as error:  # as above
            self._losses.add_loss(1, str(error))
        return b""
