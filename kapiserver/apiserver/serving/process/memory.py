"""Keeps the memory of a long-running process small: the garbage collector and malloc.

A full collection of the interpreter walks every live object: it blocks the event loop for a tenth
of a second with a cache of ten thousand objects, and for almost a second while a client sends very
large objects. `gc.freeze` therefore exempts the objects that survive two collections from all later
ones, so that a collection walks about 20,000 objects, which takes 5 to 15 ms. Reference counting
still frees exempt objects. Only reference cycles among them wait for a collection of everything.
The second collection is for cycles of requests that were in progress during the first.

A few objects in a cycle can hold megabytes, so new objects are also collected when the process
takes much more memory than after the last collection.

Requests leave no reference cycles (`tests/apiserver/test_cycles.py`, `test_refused_bodies.py`), so
a collection of everything would free nothing. It takes place only when the process exceeds
--max-memory and refuses requests, in a thread. It holds the interpreter's lock, so everything waits
for it.

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
from collections.abc import Callable, Iterator
from typing import Any

from kapiserver.apiserver.memory_limit import process_memory

CHECK_SECONDS = 1.0
"""The time between two checks of the memory while no requests arrive, which check it, too."""
MORE_BYTES = 64 << 20
"""New objects are collected when the process takes this much more memory than after the last
collection."""
EXCEEDED_SECONDS = 300.0
"""The shortest time between two collections because the process exceeds its limit of memory."""
TRIM_SECONDS = 15.0
"""The time between two calls of malloc_trim, in a thread. A call takes 1 ms if there is nothing to
return, and 20 ms for 150 MiB."""
MAX_NEW_OBJECTS = 10_000
"""How many new objects start a short collection, which walks the survivors of the one before, too.
With the interpreter's default of 700, collections took a tenth of the time of writes: with sixty
requests in flight nearly all new objects are alive."""
_ONCE_SURVIVED = 1
"""The generation of the objects that have survived one collection."""

_M_ARENA_MAX = -8
"""The parameter of `mallopt` in malloc.h: the greatest number of heaps."""


class Collector:
    """Runs the garbage collector of a process whose survivors are frozen."""

    def __init__(
        self, now: Callable[[], float] = time.monotonic, measure: Callable[[], int] = process_memory
    ) -> None:
        self._now = now
        self._measure = measure
        self._least_memory = 0
        """The least memory at the measurements since the last collection."""
        self._collected_at = float("-inf")
        self.is_enabled = False

    def enable(self) -> None:
        """Enable collections. Freeze the live objects now, and the survivors of two collections."""
        self.is_enabled = True
        gc.freeze()
        # Every second collection is one of the objects that survived the first.
        gc.set_threshold(MAX_NEW_OBJECTS, 0)
        gc.callbacks.append(self._freeze_survivors)
        gc.enable()
        self._least_memory = self._measure()

    def _freeze_survivors(self, phase: str, info: dict[str, int]) -> None:
        if phase == "stop" and info["generation"] >= _ONCE_SURVIVED:
            gc.freeze()

    def memory(self) -> int:
        """Return the bytes of memory that the process takes. Collect new objects first if these are
        MORE_BYTES more than after the last collection."""
        memory = self._measure()
        if self.is_enabled and memory >= self._least_memory + MORE_BYTES:
            gc.collect(_ONCE_SURVIVED)
            memory = self._least_memory = self._measure()
        self._least_memory = min(self._least_memory, memory)
        return memory

    def collect_if_exceeded(self) -> None:
        """Collect everything, unless the last time was less than EXCEEDED_SECONDS ago. For a thread
        of a server that refuses requests because it has no memory left."""
        if self.is_enabled and self._now() >= self._collected_at + EXCEEDED_SECONDS:
            self._collected_at = self._now()
            gc.unfreeze()
            gc.collect()  # then the callback freezes again


COLLECTOR = Collector()
"""The collector of this process. Not enabled in tests, which collect as usual."""


@contextlib.contextmanager
def collecting_rarely() -> Iterator[None]:
    """Exempt the live objects from collections until the block ends, and let MAX_NEW_OBJECTS new
    ones start a collection; for commands that make many objects and end."""
    thresholds = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(MAX_NEW_OBJECTS, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()


def use_one_heap() -> None:
    """Make all threads that start after this call use malloc's first heap. They hold the
    interpreter's lock for most of their allocations anyway."""
    with contextlib.suppress(AttributeError, OSError, TypeError):  # only glibc has mallopt
        _c_library().mallopt(_M_ARENA_MAX, 1)


def manage_memory() -> None:
    """Enable the collector and start freezing and trimming on the running event loop."""
    COLLECTOR.enable()
    loop = asyncio.get_running_loop()
    loop.call_later(CHECK_SECONDS, _check_repeatedly)
    loop.call_later(TRIM_SECONDS, _trim_repeatedly)


def _check_repeatedly() -> None:
    COLLECTOR.memory()
    asyncio.get_running_loop().call_later(CHECK_SECONDS, _check_repeatedly)


def _trim_repeatedly() -> None:
    trim_in_thread()
    asyncio.get_running_loop().call_later(TRIM_SECONDS, _trim_repeatedly)


def free_in_thread() -> None:
    """Free memory soon, in a server that refuses requests because it exceeds its limit."""
    asyncio.get_running_loop().run_in_executor(None, _collect_and_trim)


def _collect_and_trim() -> None:
    COLLECTOR.collect_if_exceeded()
    trim()


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
