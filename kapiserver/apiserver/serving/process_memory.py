"""Keeps the memory of a long-running process small: the garbage collector and malloc.

A full collection of the interpreter walks every live object: it blocks the event loop for a tenth
of a second with a cache of ten thousand objects, and for almost a second while a client sends very
large objects. `gc.freeze` therefore exempts the objects that survive a collection from all later
ones, so that a collection walks about 20,000 objects, which takes 5 to 15 ms. Reference counting
still frees exempt objects. Only reference cycles among them wait for a collection of everything.

Requests leave no reference cycles (`tests/apiserver/test_cycles.py`), so a collection of everything
would free nothing. It takes place only when short collections show that something does leave cycles
and the process has taken more memory for some minutes, or when the process exceeds --max-memory.

glibc keeps freed memory between blocks in use: after a thousand watches had ended, a server with
95 MiB of live data took 239 MiB. `malloc_trim` returns whole free pages. Each thread would get a
heap of its own, with its own free memory between blocks: one heap for all takes 15 MiB less under
mixed load, and does not grow with time (decision 030). Knows no server.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from kapiserver.apiserver.memory_limit import process_memory

CHECK_SECONDS = 60.0
"""The time between two checks whether to collect everything. A check compares the memory of the
process with the least memory at the checks since the last collection of everything."""
MORE_BYTES = 256 << 20
"""A check finds growth if the process takes at least this much more memory."""
GROWN_CHECKS = 3
"""How many checks in a row must find growth before everything is collected. Requests in progress,
such as one that creates a Deployment of 40,000 containers, take as much memory for a moment and
leave no garbage."""
MIN_GARBAGE = 100_000
"""How many objects in cycles short collections must have found before everything is collected.
Modules and compiled types leave some thousand when they are first used."""
EXCEEDED_SECONDS = 300.0
"""The shortest time between two collections because the process exceeds its limit of memory."""
TRIM_SECONDS = 15.0
"""The time between two calls of malloc_trim, in a thread. A call takes 1 ms if there is nothing to
return, and 20 ms for 150 MiB."""
MAX_NEW_OBJECTS = 20_000
"""How many new objects start a short collection. With the interpreter's default of 700, collections
took a tenth of the time of writes: with sixty requests in flight nearly all new objects are alive.
"""

_M_ARENA_MAX = -8
"""The parameter of `mallopt` in malloc.h: the greatest number of heaps."""


class Usage(NamedTuple):
    """How many bytes of memory the process takes, how many objects short collections have found in
    cycles since the last collection of everything, and how many checks in a row have found growth.
    """

    memory: int
    garbage: int = 0
    grown_checks: int = 0


class Collector:
    """Runs the garbage collector of a process whose survivors are frozen."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._garbage = 0
        self._collected_at = float("-inf")
        self.is_enabled = False

    def enable(self) -> None:
        """Enable collections. Freeze the live objects now, and the survivors of each collection."""
        self.is_enabled = True
        gc.freeze()
        gc.set_threshold(MAX_NEW_OBJECTS)
        gc.callbacks.append(self._freeze_survivors)
        gc.enable()

    def _freeze_survivors(self, phase: str, info: dict[str, int]) -> None:
        if phase == "stop":
            gc.freeze()
            self._garbage += info["collected"] + info["uncollectable"]

    def usage(self) -> Usage:
        """Return the present usage."""
        return Usage(process_memory(), self._garbage)

    def collect_if_grown(self, last: Usage) -> Usage:
        """Collect everything if GROWN_CHECKS checks in a row, this one included, found growth, and
        short collections found garbage. Return the usage that the next call compares with."""
        present = self.usage()
        least = min(last.memory, present.memory)
        has_grown = present.memory >= least + MORE_BYTES
        grown_checks = last.grown_checks + 1 if has_grown else 0
        if grown_checks < GROWN_CHECKS or present.garbage < MIN_GARBAGE:
            return Usage(least, present.garbage, min(grown_checks, GROWN_CHECKS))
        self._collect_everything()
        return self.usage()  # the next trim, in a thread, returns the freed memory to the system

    def on_limit_exceeded(self) -> None:
        """Collect everything, unless the last time was less than EXCEEDED_SECONDS ago. For a server
        that refuses requests because it has no memory left."""
        if self.is_enabled and self._now() >= self._collected_at + EXCEEDED_SECONDS:
            self._collect_everything()

    def _collect_everything(self) -> None:
        self._collected_at = self._now()
        gc.unfreeze()
        gc.collect()  # then the callback freezes again
        self._garbage = 0


COLLECTOR = Collector()
"""The collector of this process. Not enabled in tests, which collect as usual."""


def use_one_heap() -> None:
    """Make all threads that start after this call use malloc's first heap. They hold the
    interpreter's lock for most of their allocations anyway."""
    with contextlib.suppress(AttributeError, OSError, TypeError):  # only glibc has mallopt
        _c_library().mallopt(_M_ARENA_MAX, 1)


def manage_memory() -> None:
    """Enable the collector and start freezing and trimming on the running event loop."""
    COLLECTOR.enable()
    loop = asyncio.get_running_loop()
    loop.call_later(CHECK_SECONDS, _check_repeatedly, COLLECTOR.usage())
    loop.call_later(TRIM_SECONDS, _trim_repeatedly)


def _check_repeatedly(last: Usage) -> None:
    last = COLLECTOR.collect_if_grown(last)
    asyncio.get_running_loop().call_later(CHECK_SECONDS, _check_repeatedly, last)


def _trim_repeatedly() -> None:
    trim_in_thread()
    asyncio.get_running_loop().call_later(TRIM_SECONDS, _trim_repeatedly)


def collect_and_trim() -> None:
    """Free memory in a server that refuses requests because it exceeds its limit of memory."""
    COLLECTOR.on_limit_exceeded()
    trim_in_thread()


def trim_in_thread() -> None:
    """Return free memory to the system soon."""
    asyncio.get_running_loop().run_in_executor(None, trim)


def trim() -> None:
    """Return free memory to the system, if the C library is glibc."""
    # OSError: the process has no file descriptor left to import with.
    with contextlib.suppress(AttributeError, OSError, TypeError):
        _c_library().malloc_trim(0)


@functools.cache
def _c_library() -> Any:
    """Return the C library. ctypes makes classes for each library that it opens, 5 KB that only a
    collection would free."""
    import ctypes  # takes 2 to 9 ms to import: not in every process that imports this module

    return ctypes.CDLL(None)
