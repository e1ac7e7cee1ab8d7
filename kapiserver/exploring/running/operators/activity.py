"""Whether the processes of a program are at work, as Linux says in /proc.

Other systems have no such files; then nobody knows, and only time without requests counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

_PROC = Path("/proc")
_ASLEEP = frozenset("SITtZX")
"""States of threads that wait, are stopped or have ended."""
WAKE_UP_NANOSECONDS = 300_000
"""Processor time that a program may use while it is asleep: runtimes wake up to find no work."""


class Sample(Struct, frozen=True):
    """The threads of a program at one moment: whether all of them wait, and how many nanoseconds
    of processor time they have used."""

    is_asleep: bool
    nanoseconds: int

    def is_same_rest(self, later: Sample) -> bool:
        """Whether the program has waited from this sample until a later one."""
        used = later.nanoseconds - self.nanoseconds
        return self.is_asleep and later.is_asleep and 0 <= used < WAKE_UP_NANOSECONDS


def sample(pid: int) -> Sample | None:
    """Return what the threads of a process and of its descendants do; None if the system does not
    say, or the process has ended."""
    threads = list(_threads(pid))
    if not threads:
        return None
    return Sample(
        is_asleep=all(state in _ASLEEP for state, _ in threads),
        nanoseconds=sum(used for _, used in threads),
    )


def _threads(pid: int) -> Iterator[tuple[str, int]]:
    """Yield the state and the processor time of each thread, in nanoseconds."""
    try:
        folders = list((_PROC / str(pid) / "task").iterdir())
    except OSError:
        return
    for folder in folders:
        try:
            state = (folder / "stat").read_text().rpartition(")")[2].split(maxsplit=1)[0]
            used = int((folder / "schedstat").read_text().split(maxsplit=1)[0])
            children = (folder / "children").read_text().split()
        except (OSError, ValueError, IndexError):  # the thread has just ended
            continue
        yield state, used
        for child in children:
            yield from _threads(int(child))
