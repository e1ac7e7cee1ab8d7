"""Memory that a call takes, as tracemalloc counts it."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any, NamedTuple

_RUNS = 3


class Traced(NamedTuple):
    """Bytes that are in use after a call, and the most that were in use during it."""

    retained: int
    peak: int


def trace(call: Callable[[], Any]) -> Traced:
    """Return the least bytes of several calls: tracemalloc also counts what servers of other tests
    of the process allocate meanwhile, in their threads."""
    runs = [_trace_once(call) for _ in range(_RUNS)]
    return Traced(min(run.retained for run in runs), min(run.peak for run in runs))


def _trace_once(call: Callable[[], Any]) -> Traced:
    tracemalloc.start()
    try:
        call()
        return Traced(*tracemalloc.get_traced_memory())
    finally:
        tracemalloc.stop()
