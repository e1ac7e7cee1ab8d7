"""Things to look at, a few at a time, each once more when looking failed.

What is put twice before it is looked at is looked at once. Knows no object.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar, cast

from kapiserver.storage.clock import Clock

AGAIN_SECONDS = 1.0
SLOWEST_SECONDS = 60.0

_log = logging.getLogger(__name__)

Item = TypeVar("Item", bound=Hashable)


class Work(Generic[Item]):
    """A queue and its workers, which are tasks that live while there is something to do.

    look      looks at one item; raises to be called again, later each time
    workers   how many look at the same time
    """

    def __init__(
        self, look: Callable[[Item], Awaitable[None]], clock: Clock, *, workers: int, name: str
    ) -> None:
        self._look = look
        self._clock = clock
        self._workers = workers
        self._name = name
        self._due: dict[Item, None] = {}
        self._at_hand: set[Item] = set()
        self._failures: dict[Item, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = False

    def put(self, item: Item) -> None:
        """Look at it soon, once more if it is being looked at."""
        if self._stopping:
            return
        self._due[item] = None
        if len(self._tasks) < self._workers:
            task = asyncio.get_running_loop().create_task(self._run(), name=self._name)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def put_later(self, item: Item, seconds: float) -> None:
        """Look at it in a while."""
        self._clock.call_later(seconds, lambda: None if self._stopping else self.put(item))

    def clear(self) -> None:
        """Forget what is due."""
        self._due.clear()
        self._failures.clear()

    async def stop(self) -> None:
        """Look at nothing more, and break off what is being looked at: a leader that is one no
        more may not write on, and whoever comes next looks again."""
        self._stopping = True
        self.clear()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            item = next((one for one in self._due if one not in self._at_hand), None)
            if item is None:
                # Now, not in the callback: what is put in between would find a worker, and wait.
                self._tasks.discard(cast("asyncio.Task[None]", asyncio.current_task()))
                return
            del self._due[item]
            self._at_hand.add(item)
            try:
                await self._look(item)
                self._failures.pop(item, None)
            except Exception as error:
                self._later(item, error)
            finally:
                self._at_hand.discard(item)
            # What is looked at in memory alone never waits: let others have a turn.
            await asyncio.sleep(0)

    def _later(self, item: Item, error: Exception) -> None:
        times = self._failures[item] = self._failures.get(item, 0) + 1
        seconds = min(AGAIN_SECONDS * 2 ** (times - 1), SLOWEST_SECONDS)
        _log.info("%s: %s: %s; again in %g s", self._name, item, error, seconds)
        if not self._stopping:
            self.put_later(item, seconds)
