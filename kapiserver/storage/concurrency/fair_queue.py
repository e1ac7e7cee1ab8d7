"""A queue of work that takes turns between users.

Each user has a queue of their own; the next piece of work is the first of the user who has waited
longest for a turn. So a user with a thousand pieces of work delays another by one piece only.
Knows no thread and no event loop.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from typing import Generic, TypeVar

Work = TypeVar("Work")

SYSTEM = ""
"""The user of the server's own work, which has no limit."""


class FairQueue(Generic[Work]):
    """The queued work of all users, who take turns.

    limit           how many pieces of all users together may be queued
    limit_per_user  how many pieces of one user may be queued
    running_per_user
                    how many pieces of one user may run at a time
    """

    def __init__(self, *, limit: int, limit_per_user: int, running_per_user: int) -> None:
        self._limit = limit
        self._limit_per_user = limit_per_user
        self._running_per_user = running_per_user
        self._queues: OrderedDict[str, deque[Work]] = OrderedDict()
        self._running: Counter[str] = Counter()
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, user: str, work: Work, *, limited: bool = True) -> bool:
        """Add work at the end of the user's queue. Return False if it is `limited` and a limit is
        reached."""
        queue = self._queues.get(user)
        if limited and user != SYSTEM:
            queued = 0 if queue is None else len(queue)
            if self._size >= self._limit or queued >= self._limit_per_user:
                return False
        if queue is None:
            queue = self._queues[user] = deque()
        queue.append(work)
        self._size += 1
        return True

    def start_next(self) -> tuple[str, Work] | None:
        """Remove and return the next work and its user, and count it as running; None if there is
        none that may run."""
        for user, queue in self._queues.items():
            if self._running[user] < self._running_per_user:
                work = queue.popleft()
                self._forget_if_empty(user)
                if queue:
                    self._queues.move_to_end(user)
                self._size -= 1
                self._running[user] += 1
                return user, work
        return None

    def finish(self, user: str) -> None:
        """Count one piece of work of the user as no longer running."""
        self._running[user] -= 1
        if not self._running[user]:
            del self._running[user]

    def remove(self, user: str, work: Work) -> None:
        """Remove work that has not started, if it is still queued."""
        queue = self._queues.get(user)
        if queue is not None and work in queue:
            queue.remove(work)
            self._size -= 1
            self._forget_if_empty(user)

    def _forget_if_empty(self, user: str) -> None:
        if not self._queues[user]:
            del self._queues[user]
