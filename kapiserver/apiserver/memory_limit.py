"""The limit of the memory of one process.

Above the limit the server frees what it can make again, and refuses requests until it is below:
a process that the system kills for its memory loses all watches at once and starts again with the
same load. Only memory that the process has allocated counts, not files that it has mapped. The
limit has an effect on Linux only. Knows no request.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from kapiserver.apiserver.config import Config
from kapiserver.storage.concurrency.clock import Clock
from kapiserver.storage.concurrency.subscriptions import Subscribers, Subscription

DEFAULT_SHARE = 0.75
"""The default limit, as a share of the memory of the machine or of the control group."""
MEASURE_SECONDS = 0.05
"""The shortest time between two measurements; one takes 10 microseconds."""
FREE_SECONDS = 1.0
"""The shortest time between two calls of the functions that free memory."""

_STATM_BYTES = 256

_log = logging.getLogger(__name__)


def process_memory() -> int:
    """Return the bytes of memory that this process has allocated and uses; 0 if unknown."""
    try:
        with open("/proc/self/statm", "rb", buffering=0) as file:  # no Path: a request waits
            resident, shared = file.read(_STATM_BYTES).split()[1:3]
    except OSError:
        return 0
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")


class MemoryLimit:
    """Measures the memory of the process when requests arrive.

    limit   bytes; 0 means no limit
    free    functions that free memory: called above the limit, at most once a second, after those
            that are subscribed
    measure returns the bytes that the process takes
    """

    def __init__(
        self,
        limit: int,
        clock: Clock,
        free: Sequence[Callable[[], None]],
        measure: Callable[[], int] = process_memory,
    ) -> None:
        self.limit = limit
        self._clock = clock
        self._free = free
        self._subscribed = Subscribers[Callable[[], None]]()
        self._measure = measure
        self._measured_at = self._freed_at = float("-inf")
        self._is_exceeded = False

    def subscribe(self, free: Callable[[], None]) -> Subscription:
        """Call a function that frees memory above the limit, at most once a second."""
        return self._subscribed.subscribe(free)

    def is_exceeded(self) -> bool:
        """Report whether the process takes more memory than the limit."""
        now = self._clock.now()
        if not self.limit or now < self._measured_at + MEASURE_SECONDS:
            return self._is_exceeded
        self._measured_at = now
        size = self._measure()
        if self._is_exceeded is not (size > self.limit):
            self._is_exceeded = not self._is_exceeded
            state = "is above" if self._is_exceeded else "is again below"
            _log.warning("memory of %d MiB %s --max-memory", size >> 20, state)
        if self._is_exceeded and now >= self._freed_at + FREE_SECONDS:
            self._freed_at = now
            for free in (*self._subscribed, *self._free):
                free()
        return self._is_exceeded


def max_memory(config: Config) -> int:
    """Return the limit of a process in bytes, 0 for none: as configured, or the default."""
    if config.limits.max_memory is not None:
        return config.limits.max_memory
    return default_limit() // config.serving.workers


def default_limit(*, proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> int:
    """Return the default limit in bytes; 0, no limit, if the memory of the machine is unknown."""
    sizes = [_machine_memory(proc), *_group_limits(proc, groups)]
    return int(min((size for size in sizes if size), default=0) * DEFAULT_SHARE)


def _machine_memory(proc: Path) -> int:
    with contextlib.suppress(OSError):
        for line in (proc / "meminfo").read_text().splitlines():
            name, _, value = line.partition(":")
            if name == "MemTotal":
                return int(value.split()[0]) << 10
    return 0


def _group_limits(proc: Path, groups: Path) -> list[int]:
    """Return the limits of the process's control group and of the groups around it."""
    limits = []
    with contextlib.suppress(OSError):
        for line in (proc / "self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers and "memory" not in controllers.split(","):
                continue
            if controllers:  # version 1 of control groups
                root, name = groups / "memory", "memory.limit_in_bytes"
            else:
                root, name = groups, "memory.max"
            group = root / path.lstrip("/")
            limits += [
                _limit_of(member / name) for member in (group, *group.parents) if member >= root
            ]
    return limits


def _limit_of(file: Path) -> int:
    """Return the number in a file; 0 for "max" and if there is no file."""
    with contextlib.suppress(OSError, ValueError):
        return int(file.read_text())
    return 0
