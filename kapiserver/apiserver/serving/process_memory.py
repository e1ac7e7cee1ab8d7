"""Keeps the memory of a long-running process small: the garbage collector and malloc.

A full collection of the interpreter walks every live object: with a cache of ten thousand objects
it blocks the event loop for a tenth of a second and frees hardly anything. `gc.freeze` therefore
exempts the objects that survive a collection from all later ones, so that a collection walks about
20,000 objects, which takes 5 to 15 ms. Reference counting still frees exempt objects. Only
reference cycles among them wait for a collection of everything, which takes place when there are
many more exempt objects, or the process takes much more memory.

glibc keeps freed memory between blocks in use: after a thousand watches had ended, a server with
95 MiB of live data took 239 MiB. `malloc_trim` returns whole free pages. Knows no server.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
from typing import NamedTuple

from kapiserver.apiserver.memory_limit import process_memory

CHECK_SECONDS = 60.0
"""Between two checks whether to collect everything. A check takes 10 ms for a million objects."""
GROWTH = 2
"""Everything is collected when so many times the objects are frozen as after the last time, ..."""
MIN_FROZEN = 1_000_000
"""... but not before so many are frozen, about 100 MB. Their collection takes half a second."""
MORE_BYTES = 256 << 20
"""Everything is collected, too, when the process takes so much more memory than at an earlier check
since the last time: few frozen objects, such as aborted connections, may hold large buffers."""
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
    loop.call_later(CHECK_SECONDS, _check_repeatedly, usage())
    loop.call_later(TRIM_SECONDS, _trim_repeatedly)


def _freeze_survivors(phase: str, _info: dict[str, int]) -> None:
    if phase == "stop":
        gc.freeze()


class Usage(NamedTuple):
    """How many objects are frozen, and how many bytes of memory the process takes."""

    frozen: int
    memory: int


def usage() -> Usage:
    """Return the present usage."""
    return Usage(gc.get_freeze_count(), process_memory())


def _check_repeatedly(last: Usage) -> None:
    last = collect_if_grown(last)
    asyncio.get_running_loop().call_later(CHECK_SECONDS, _check_repeatedly, last)


def collect_if_grown(last: Usage) -> Usage:
    """Collect everything if there are many more frozen objects than after the last collection, or
    if the process takes much more memory. Return what the next call compares with."""
    present = usage()
    least = min(last.memory, present.memory)
    if (
        present.frozen < max(GROWTH * last.frozen, MIN_FROZEN)
        and present.memory < least + MORE_BYTES
    ):
        return Usage(last.frozen, least)
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    return usage()  # what is freed goes back to the system with the next trim, in a thread


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
