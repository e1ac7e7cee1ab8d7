"""The memory of a process that keeps many objects for long: the interpreter's garbage collector,
and what the allocator holds back.

A full collection walks everything that is alive: with a cache of ten thousand objects it holds the
event loop for a tenth of a second, to find hardly anything. Here what has survived one is set aside
(`gc.freeze`), so that the next walks only what is newer. What is set aside still goes when nothing
refers to it; only cycles among it stay, until all is walked once an hour.

The C library keeps what was freed between two pieces that are in use: after a thousand watches had
ended a server of 95 MiB took 239. It is asked to give whole pages back. Knows no server.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc

FULL_SECONDS = 3600.0
"""Between two walks of everything."""
TRIM_SECONDS = 15.0
"""Between two requests to give memory back: 1 ms where there is none to give, 20 ms for 150 MiB, in
a thread."""
THRESHOLDS = (20_000, 4, 2)
"""Objects made before the youngest are walked, and how often until the older ones are. Of sixty
requests under way nearly all that is young is alive: with the interpreter's 700 a tenth of the time
of writes went by in walking it. The walk of 160,000 takes about as long as a full one did."""


def tend() -> None:
    """Begin, on the running loop: all that is alive now, and all that survives, is set aside."""
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    gc.callbacks.append(_set_aside)
    gc.enable()
    asyncio.get_running_loop().call_later(FULL_SECONDS, _walk_everything)
    asyncio.get_running_loop().call_later(TRIM_SECONDS, _give_back)


def _set_aside(phase: str, info: dict[str, int]) -> None:
    if phase == "stop" and info["generation"] == 2:
        gc.freeze()


def _walk_everything() -> None:
    gc.unfreeze()
    gc.collect()
    asyncio.get_running_loop().call_later(FULL_SECONDS, _walk_everything)


def _give_back() -> None:
    loop = asyncio.get_running_loop()
    loop.run_in_executor(None, trim)
    loop.call_later(TRIM_SECONDS, _give_back)


def trim() -> None:
    """Give free memory back to the system, where the C library is one that can (glibc)."""
    import ctypes  # takes 9 ms, which no start should wait for

    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
