"""Deletes keys whose time to live has passed, for a store that keeps the times of expiry itself.

One timer waits for the next expiry. Knows no database: the store reads and writes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

from kapiserver.storage.concurrency.background_tasks import BackgroundTasks
from kapiserver.storage.concurrency.clock import Clock, Timer
from kapiserver.storage.errors import Conflict, StorageError

EXPIRY_STEP = 500
"""Maximum number of keys that are read and deleted at once."""
EXPIRY_RETRY_SECONDS = 10.0
"""Seconds between a failed deletion of expired keys and the next attempt."""
NEVER = float("inf")

Deletion = TypeVar("Deletion")

_log = logging.getLogger(__name__)


class Expiry(Generic[Deletion]):
    """The timer of one store's expiring keys, from `schedule` to `stop`."""

    def __init__(
        self,
        clock: Clock,
        tasks: BackgroundTasks[None],
        *,
        expired: Callable[[float, int], Awaitable[Sequence[Deletion]]],
        delete: Callable[[Deletion], Awaitable[Any]],
        next_expiry: Callable[[], Awaitable[float]],
        longest_wait: float,
    ) -> None:
        """Nothing is deleted before `schedule`.

        expired         returns deletions of the first keys that expired by a time
        delete          applies one; raises Conflict if the key was written again meanwhile
        next_expiry     returns when the next key expires, in seconds since the epoch; NEVER if none
        longest_wait    seconds after which `expired` is called at the latest while a key expires
                        later, because the wall clock may change
        """
        self._clock = clock
        self._tasks = tasks
        self._expired = expired
        self._delete = delete
        self._next_expiry = next_expiry
        self._longest_wait = longest_wait
        self._timer: Timer | None = None
        self._stopped = False
        self.at = NEVER
        """When the next key expires, as far as this server knows."""

    def time_of(self, ttl: int) -> float:
        """Return when a key written now expires, 0 for never."""
        return self._clock.now() + ttl if ttl else 0

    def schedule(self, at: float) -> None:
        """Set the timer for the next expiry."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.at = at
        if self._stopped or at == NEVER:
            return
        wait = min(at - self._clock.now(), self._longest_wait)
        if wait > 0:
            self._timer = self._clock.call_later(wait, self._start)
        else:
            self._start()

    def add(self, at: float) -> None:
        """Take note of a key that expires at this time; 0 for never."""
        if at and at < self.at:
            self.schedule(at)

    def stop(self) -> None:
        """Cancel the timer; the store ends the tasks. Idempotent."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _start(self) -> None:
        self._tasks.start(self._run())

    async def _run(self) -> None:
        """Delete expired keys, then set the timer for the next expiry, or for a retry."""
        try:
            deletions = await self._expired(self._clock.now(), EXPIRY_STEP)
            outcomes = await asyncio.gather(*map(self._delete, deletions), return_exceptions=True)
            errors = [
                outcome
                for outcome in outcomes
                # Conflict: the key was written again meanwhile.
                if isinstance(outcome, BaseException) and not isinstance(outcome, Conflict)
            ]
            del outcomes  # an error that this frame kept would be in a cycle with it
            if errors:
                raise errors.pop(0)
            at = await self._next_expiry()
        except StorageError as error:
            _log.info("deleting expired keys failed: %s", error)
            at = self._clock.now() + EXPIRY_RETRY_SECONDS
        self.schedule(at)
