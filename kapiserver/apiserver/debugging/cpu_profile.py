"""Profiles the CPU of this process: which functions of Python take it, in all threads.

A thread looks at the stacks of the others a hundred times a second. The CPU that a thread has
taken since the last look, by the clock that Linux has for each thread, is counted for the stack
that the thread has now. A thread that waits takes none, and is not in the profile. The clock is
addressed by the kernel's number of the thread, because pthread_getcpuclockid crashes the process if
the thread has just ended.

`signal.setitimer` would interrupt the process for each sample, needs the main thread, and sees only
the main thread.
"""

from __future__ import annotations

import sys
import threading
import time

from msgspec import Struct, field

from kapiserver.apiserver.debugging.pprof_format import Profile, Sample, Stack
from kapiserver.apiserver.debugging.stacks import thread_stack

PERIOD_SECONDS = 0.01
_PERIOD = round(PERIOD_SECONDS * 1e9)
_SCHEDULER_CLOCK_OF_THREAD = 6
"""The low bits of the number of a thread's clock: CPUCLOCK_PERTHREAD_MASK and CPUCLOCK_SCHED of
include/linux/posix-timers_types.h."""


def is_available() -> bool:
    """Report whether the system has a clock for the CPU of each thread, as Linux does."""
    return sys.platform == "linux"


def profile_cpu(seconds: float, stop: threading.Event) -> Profile:
    """Return a profile of that time, or of the time until `stop` is set. For a thread."""
    start, started = time.time_ns(), time.monotonic_ns()
    end = started + round(seconds * 1e9)
    sampler = _Sampler()
    sampler.look()
    sampler.counts.clear()  # the CPU until now
    while time.monotonic_ns() < end and not stop.wait(PERIOD_SECONDS):
        sampler.look()
    return Profile(
        value_types=(("samples", "count"), ("cpu", "nanoseconds")),
        samples=[
            Sample(stack=stack, values=(count.samples, count.cpu), labels=(("thread", name),))
            for (name, stack), count in sampler.counts.items()
        ],
        period_type=("cpu", "nanoseconds"),
        period=_PERIOD,
        start=start,
        duration=time.monotonic_ns() - started,
    )


class _Count(Struct):
    samples: int = 0
    cpu: int = 0


class _Sampler(Struct):
    """Counts CPU by thread and stack.

    cpu     nanoseconds of each thread at the last look, by the kernel's number
    """

    counts: dict[tuple[str, Stack], _Count] = field(default_factory=dict)
    cpu: dict[int, int] = field(default_factory=dict)

    def look(self) -> None:
        """Count the CPU that each thread has taken since the last look."""
        innermost = sys._current_frames()
        for thread in threading.enumerate():
            number = thread.native_id
            if number is None or thread is threading.current_thread():
                continue
            try:
                cpu = time.clock_gettime_ns((~number << 3) | _SCHEDULER_CLOCK_OF_THREAD)
            except OSError:
                continue  # the thread has ended
            used = cpu - self.cpu.get(number, 0)
            self.cpu[number] = cpu
            stack = thread_stack(innermost.get(thread.ident or 0)) if used > 0 else ()
            if stack:
                count = self.counts.setdefault((thread.name, stack), _Count())
                count.samples += 1
                count.cpu += used
        innermost.clear()  # frames of others must not live longer, nor refer to this one
