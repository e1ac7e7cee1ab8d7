"""Frees large values in a thread: on the event loop that takes up to 50 ms.

Python frees a value where its last reference is dropped. The functions that use a tree cannot know
which of them drops the last one, so DeferredFree holds a reference of its own. A timer compares the
reference counts, and a thread drops the references to values that nothing else uses. Knows no
object.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from typing import Any, NamedTuple

CHECK_SECONDS = 0.1
"""The time between two checks of the reference counts, while a value is held."""
HOLD_SECONDS = 30.0
"""How long a value is held. A value that is in use for longer is in a cache, which defers its
freeing again when it evicts the value."""
_OWN_REFERENCES = 2
"""The references of _HeldValue and of the call of getrefcount."""


class _HeldValue(NamedTuple):
    """A value, and until when it is held, by the clock of the event loop."""

    value: Any
    until: float


class DeferredFree:
    """The large values of one server that wait until nothing else uses them."""

    def __init__(self) -> None:
        self._held: dict[int, _HeldValue] = {}
        """By identity: with two references of its own to a value, it would seem to be in use."""

    def add(self, value: Any) -> None:
        """Free a value in a thread, soon after all other code has dropped it."""
        if not self._held:
            self._check_later()
        until = asyncio.get_running_loop().time() + HOLD_SECONDS
        self._held.setdefault(id(value), _HeldValue(value, until))

    def _check_later(self) -> None:
        asyncio.get_running_loop().call_later(CHECK_SECONDS, self._check)

    def _check(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        identities = [
            identity
            for identity, held in self._held.items()
            if held.until <= now or sys.getrefcount(held.value) <= _OWN_REFERENCES
        ]
        released = [self._held.pop(identity) for identity in identities]
        if released:
            with contextlib.suppress(RuntimeError):  # the loop is closing
                loop.run_in_executor(None, released.clear)
        if self._held:
            self._check_later()
