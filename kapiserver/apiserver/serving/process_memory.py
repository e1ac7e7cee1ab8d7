"""Keeps the memory of a long-running process small: the garbage collector and malloc.

A full collection of the interpreter walks every live object: with a cache of ten thousand objects
it blocks the event loop for a tenth of a second and frees hardly anything. `gc.freeze` therefore
exempts the survivors of each full collection from the next. Reference counting still frees them;
only reference cycles among them wait for the hourly collection of everything.

glibc keeps freed memory between blocks in use: after a thousand watches had ended, a server with
95 MiB of live data took 239 MiB. `malloc_trim` returns whole free pages. Knows no server.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc

FULL_SECONDS = 3600.0
"""Between two collections of everything, frozen objects included."""
TRIM_SECONDS = 15.0
"""Between two calls of malloc_trim, in a thread: 1 ms with nothing to return, 20 ms for 150 MiB."""
THRESHOLDS = (20_000, 4, 2)
"""The arguments of gc.set_threshold. With the interpreter's 700, collections of the youngest
generation took a tenth of the time of writes: with sixty requests in flight nearly all young
objects are alive. A collection of 160,000 objects takes about as long as a full one did."""


def manage_memory() -> None:
    """Enable the collector and start freezing and trimming on the running event loop."""
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    gc.callbacks.append(_freeze_survivors)
    gc.enable()
    asyncio.get_running_loop().call_later(FULL_SECONDS, _collect_everything)
    asyncio.get_running_loop().call_later(TRIM_SECONDS, _trim_repeatedly)


def _freeze_survivors(phase: str, info: dict[str, int]) -> None:
    if phase == "stop" and info["generation"] == 2:
        gc.freeze()


def _collect_everything() -> None:
    gc.unfreeze()
    gc.collect()
    asyncio.get_running_loop().call_later(FULL_SECONDS, _collect_everything)


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
