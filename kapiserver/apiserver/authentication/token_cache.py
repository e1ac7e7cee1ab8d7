"""A bounded cache of what is known about tokens. No entry outlives its time, and none holds the
token: junk takes no more memory than its hash.

Mirrors pkg/authentication/token/cache of k8s.io/apiserver.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Generic, TypeVar

from kapiserver.metrics import Counter
from kapiserver.storage.concurrency.clock import Clock

MAX_ENTRIES = 4096

Value = TypeVar("Value")


class TokenCache(Generic[Value]):
    """Values by token; the entry that was used least recently goes first. `requests` counts the
    calls of `get` as "hit" or "miss"."""

    def __init__(
        self,
        clock: Clock,
        max_entries: int = MAX_ENTRIES,
        requests: Counter[str] | None = None,
    ) -> None:
        self._requests = requests if requests is not None else Counter[str]()
        self._clock = clock
        self._max_entries = max_entries
        self._entries: OrderedDict[bytes, tuple[float, Value]] = OrderedDict()

    def get(self, token: str) -> Value | None:
        """Return the value of a token, or None if there is none that is still valid."""
        value = self._get(token)
        self._requests.add("miss" if value is None else "hit")
        return value

    def _get(self, token: str) -> Value | None:
        key = _key(token)
        entry = self._entries.get(key)
        if entry is None:
            return None
        until, value = entry
        if self._clock.now() >= until:
            del self._entries[key]
            return None
        self._entries.move_to_end(key)
        return value

    def put(self, token: str, value: Value, *, until: float) -> None:
        """Keep a value until a time, in seconds since the epoch."""
        if until <= self._clock.now():
            return
        key = _key(token)
        self._entries[key] = (until, value)
        self._entries.move_to_end(key)
        if len(self._entries) > self._max_entries:
            self._entries.popitem(last=False)


def _key(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
