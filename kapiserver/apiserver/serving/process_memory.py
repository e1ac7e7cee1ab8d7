"""Keeps the memory of a long-running process small: the garbage collector and malloc.

A full collection of the interpreter walks every live object: with a cache of ten thousand objects
it blocks the event loop for a tenth of a second and frees hardly anything. `gc.freeze` therefore
exempts the objects that survive a collection from all later ones, so that a collection walks about
20,000 objects, which takes 5 to 15 ms. Reference counting still frees exempt objects. Only
reference cycles among them wait for a collection of everything, which takes place when the exempt
objects are many and have doubled.

glibc keeps freed memory between blocks in use: after a thousand watches had ended, a server with
95 MiB of live data took 239 MiB. `malloc_trim` returns whole free pages. Knows no server.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc

CHECK_SECONDS = 60.0
"""Between two checks whether to collect everything. A check takes 10 ms for a million objects."""
GROWTH = 2
"""Everything is collected when so many times the objects are frozen as after the last time, ..."""
MIN_FROZEN = 1_000_000
"""... but not before so many are frozen, about 100 MB. A collection of them takes half a second."""
TRIM_SECONDS = 15.0
"""Between two calls of malloc_trim, in a thread: 1 ms with nothing to return, 20 ms for 150 MiB."""
MAX_NEW_OBJECTS = 20_000
"""New objects that start a collection. With the interpreter's 700, collections took a tenth of the
time of writes: with sixty requests in flight nearly all new objects are alive."""


def manage_memory() -> None:
    """Enable the collector and start freezing and trimming on the running event loop."""
    gc.freeze()
    gc.set_threshold(MAX_NEW_OBJECTS)
    gc.callbacks.append(_freeze_survivors)
    gc.enable()
    loop = asyncio.get_running_loop()
    loop.call_later(CHECK_SECONDS, _check_repeatedly, gc.get_freeze_count())
    loop.call_later(TRIM_SECONDS, _trim_repeatedly)


def _freeze_survivors(phase: str, _info: dict[str, int]) -> None:
    if phase == "stop":
        gc.freeze()


def _check_repeatedly(frozen: int) -> None:
    frozen = collect_if_grown(frozen)
    asyncio.get_running_loop().call_later(CHECK_SECONDS, _check_repeatedly, frozen)


def collect_if_grown(frozen: int) -> int:
    """Collect everything if GROWTH times as many objects are frozen as after the last time. Return
    how many are frozen after the last time now."""
    if gc.get_freeze_count() < max(GROWTH * frozen, MIN_FROZEN):
        return frozen
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    return gc.get_freeze_count()


def _trim_repeatedly() -> None:
    trim_in_thread()
    asyncio.get_running_loop().call_later(TRIM_SECONDS, _trim_repeatedly)


def trim_in_thread() -> None:
    """Return free memory to the system soon."""
    asyncio.get_running_loop().run_in_executor(None, trim)


def trim() -> None:
    """Return free memory to the system, if the C library is glibc."""
    # OSError: the process has no file descriptor left to import with.
    with contextlib.suppress(AttributeError, OSError, TypeError):
        import ctypes  # takes 9 ms to import; not at start-up

        ctypes.CDLL(None).malloc_trim(0)
