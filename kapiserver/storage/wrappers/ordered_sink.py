"""Events of a watch that pass through work that may wait: a webhook, or a KMS plugin.

The work runs for one batch at a time, so that events and progress arrive in order. What a store
wraps around the sink of its caller is also the watch that the caller gets.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from msgspec import Struct

from kapiserver.storage.errors import StorageError, Unavailable
from kapiserver.storage.kv.contract import EventSink, KVEvent, Revision, Watch

MAX_PENDING_EVENTS = 10_000
"""Limit of the batches of events that wait; beyond it the watch ends."""

Transform: TypeAlias = Callable[[Sequence[KVEvent]], Awaitable[Sequence[KVEvent]]]
"""Returns the events to pass on. Raises StorageError, which ends the watch."""


class _Progress(Struct, frozen=True):
    revision: Revision


class OrderedSink:
    """Passes events through a function to another sink."""

    def __init__(self, sink: EventSink, transform: Transform) -> None:
        self.watch: Watch | None = None
        self._sink = sink
        self._transform = transform
        self._pending: deque[Sequence[KVEvent] | _Progress] = deque()
        self._task: asyncio.Task[None] | None = None
        self._ended = False

    # The sink of the watch of the store below.

    def on_events(self, batch: Sequence[KVEvent]) -> None:
        """Pass events on when the work for them is done."""
        self._enqueue(batch)

    def on_progress(self, revision: Revision) -> None:
        """Pass progress on after the events before it."""
        self._enqueue(_Progress(revision))

    def on_closed(self, error: Exception | None) -> None:
        """Forget what waits, and end the other sink."""
        if not self._ended:
            self._ended = True
            self._pending.clear()
            if self._task is not None:
                self._task.cancel()
            self._sink.on_closed(error)

    # The watch that callers get.

    def cancel(self) -> None:
        """End the watch."""
        if self.watch is not None:
            self.watch.cancel()
        self.on_closed(None)

    def request_progress(self, revision: Revision | None = None) -> None:
        """Request a call of `on_progress`."""
        if self.watch is not None:
            self.watch.request_progress(revision)

    @property
    def is_waiting(self) -> bool:
        """Whether events wait, so that others must wait behind them."""
        return self._task is not None

    def _enqueue(self, item: Sequence[KVEvent] | _Progress) -> None:
        if self._ended:
            return
        self._pending.append(item)
        if len(self._pending) > MAX_PENDING_EVENTS:
            self._fail(Unavailable("too many events wait for their conversion or decryption"))
        elif self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        try:
            while self._pending:
                item = self._pending.popleft()
                if isinstance(item, _Progress):
                    self._sink.on_progress(item.revision)
                else:
                    self._sink.on_events(await self._transform(item))
        except StorageError as error:
            self._fail(error)
        finally:
            self._task = None

    def _fail(self, error: StorageError) -> None:
        self._task = None
        self.on_closed(error)
        if self.watch is not None:
            self.watch.cancel()
