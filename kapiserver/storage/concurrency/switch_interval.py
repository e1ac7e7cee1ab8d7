"""How soon a thread gets the interpreter's lock from another one that is at work.

The interpreter lets a thread wait for 5 ms. That is long for the event loop beside a thread that
decodes an object, and for a thread that needs the lock twenty times for a transaction. So the
interval is SWITCH_SECONDS while long work runs. At other times that would cost a write to SQLite
16 % more CPU.
"""

from __future__ import annotations

import sys
import threading

SWITCH_SECONDS = 0.001
"""With the interpreter's 5 ms, two threads at work delay the event loop by 80 ms in the worst 1 %
of its turns; with 1 ms by 26 ms."""


class _SwitchInterval:
    """The interval of this process, which all its servers share. A context that runs long work."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        """How much long work runs."""
        self._usual_seconds = 0.0

    def begin(self) -> None:
        """Long work begins: let the interpreter switch often."""
        with self._lock:
            if not self._count:
                self._usual_seconds = sys.getswitchinterval()
                sys.setswitchinterval(SWITCH_SECONDS)
            self._count += 1

    def end(self) -> None:
        """Long work ends; the last end restores the usual interval."""
        with self._lock:
            self._count -= 1
            if not self._count:
                sys.setswitchinterval(self._usual_seconds)

    def __enter__(self) -> None:
        self.begin()

    def __exit__(self, *_: object) -> None:
        self.end()


SWITCH_OFTEN = _SwitchInterval()
