"""A bounded cache of what is known about tokens. No entry outlives its time.

Mirrors pkg/authentication/token/cache of k8s.io/apiserver.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

from kapiserver.storage.clock import Clock

MAX_ENTRIES = 4096

Value = TypeVar("Value")


class TokenCache(Generic[Value]):
    """Values by token; the entry that was used least recently goes first."""

    def __init__(self, clock: Clock, max_entries: int = MAX_ENTRIES) -> None:
        self._clock = clock
        self._max_entries = max_entries
        self._entries: OrderedDict[str, tuple[float, Value]] = OrderedDict()

    def get(self, token: str) -> Value | None:
        """Return the value of a token, or None if there is none that is still valid."""
        entry = self._entries.get(token)
        if entry is None:
            return None
        until, value = entry
        if self._clock.now() >= until:
            del self._entries[token]
            return None
        self._entries.move_to_end(token)
        return value

    def put(self, token: str, value: Value, *, until: float) -> None:
        """Keep a value until a time, in seconds since the epoch."""
        if until <= self._clock.now():
            return
        self._entries[token] = (until, value)
        self._entries.move_to_end(token)
        if len(self._entries) > self._max_entries:
            self._entries.popitem(last=False)
