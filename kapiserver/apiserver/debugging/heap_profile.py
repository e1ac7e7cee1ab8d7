"""Profiles the memory of this process by tracemalloc: where what is allocated was allocated.

tracemalloc makes every allocation several times slower, so it runs while a profile is taken: the
profile has what was allocated in that time and is still in use. A process that was started with
PYTHONTRACEMALLOC=16 has traced everything, and its profile is of all memory, at once.

The copy of the traces holds the interpreter's lock. So tracing ends when the traces take
MAX_TRACE_BYTES.
"""

from __future__ import annotations

import threading
import time
import tracemalloc

from kapiserver.apiserver.debugging.pprof_format import Frame, Profile, Sample

MAX_TRACE_BYTES = 8 << 20
"""The memory of the traces at which a profile ends; about 60,000 allocations."""
_FRAMES = 16
_CHECK_SECONDS = 0.02


def profile_heap(seconds: float, stop: threading.Event) -> Profile:
    """Return a profile of that time, or of the time until `stop` is set. For a thread."""
    start, started = time.time_ns(), time.monotonic_ns()
    if tracemalloc.is_tracing():
        return _profile(tracemalloc.take_snapshot(), start, 0)
    end = started + round(seconds * 1e9)
    tracemalloc.start(_FRAMES)
    try:
        while time.monotonic_ns() < end and not stop.wait(_CHECK_SECONDS):
            if tracemalloc.get_tracemalloc_memory() > MAX_TRACE_BYTES:
                break
        snapshot = tracemalloc.take_snapshot()
    finally:
        tracemalloc.stop()
    return _profile(snapshot, start, time.monotonic_ns() - started)


def _profile(snapshot: tracemalloc.Snapshot, start: int, duration: int) -> Profile:
    own = tracemalloc.Filter(inclusive=False, filename_pattern=tracemalloc.__file__)
    return Profile(
        value_types=(("inuse_objects", "count"), ("inuse_space", "bytes")),
        samples=[
            Sample(
                stack=tuple(
                    # tracemalloc knows no function.
                    Frame(f"{frame.filename}:{frame.lineno}", frame.filename, 0, frame.lineno)
                    for frame in reversed(statistic.traceback)
                ),
                values=(statistic.count, statistic.size),
            )
            for statistic in snapshot.filter_traces((own,)).statistics("traceback")
        ],
        period_type=("space", "bytes"),
        period=1,
        start=start,
        duration=duration,
    )
