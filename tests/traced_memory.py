"""Memory that a call takes, as tracemalloc counts it."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any, NamedTuple


class Traced(NamedTuple):
    """Bytes that are in use after a call, and the most that were in use during it."""

    retained: int
    peak: int


def trace(call: Callable[[], Any]) -> Traced:
    """Return the bytes of a call. Tracemalloc counts those of all threads, so a test that traces
    has the mark `own_process`."""
    tracemalloc.start()
    try:
        call()
        return Traced(*tracemalloc.get_traced_memory())
    finally:
        tracemalloc.stop()
