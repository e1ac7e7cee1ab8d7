"""Retry-After of the requests that a priority level rejects: longer while it rejects many.

The time doubles when a level has rejected three requests for each of its seconds, and shrinks by
one second when it has rejected fewer than one. Mirrors dropped_requests_tracker.go of
util/flowcontrol of k8s.io/apiserver.
"""

from __future__ import annotations

from collections import deque

MAX_SECONDS = 32


class RetryAfter:
    """The Retry-After of one priority level, in seconds."""

    __slots__ = ("_changed_at", "_count", "_history", "_second", "seconds")

    def __init__(self) -> None:
        self.seconds = 1
        self._second, self._count = -1, 0
        self._history: deque[tuple[int, int]] = deque()
        """Past seconds with rejections, and their number."""
        self._changed_at = 0

    def reject(self, now: float) -> int:
        """Count a rejected request; return the seconds after which its client may try again."""
        second = int(now)
        if second != self._second:
            if self._count:
                self._history.append((self._second, self._count))
            self._second, self._count = second, 0
            self._adjust(second)
        self._count += 1
        return self.seconds

    def _adjust(self, second: int) -> None:
        while self._history and second - self._history[0][0] > MAX_SECONDS:
            self._history.popleft()
        rejected = sum(
            count for time, count in self._history if second - self.seconds <= time < second
        )
        if second - self._changed_at >= self.seconds and rejected >= 3 * self.seconds:
            self.seconds = min(2 * self.seconds, MAX_SECONDS)
            self._changed_at = second
        elif rejected < self.seconds and self.seconds > 1:
            self.seconds -= 1
