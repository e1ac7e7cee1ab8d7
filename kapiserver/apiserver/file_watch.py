"""Notices when the files of the server's configuration change.

A timer compares the states of all files once a second, if there are any. It follows symbolic links,
so that it sees a file that is replaced by a rename, and the ConfigMap or Secret of a Pod, where the
kubelet changes the link `..data`. Every minute all files are read again whatever their states say,
because a file may change twice within a tick of the file system's clock, and an error of reading
may be over; kube-apiserver does so, too. Decision 103 says why no events of the kernel are used.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Hashable, Iterable, Sequence
from pathlib import Path
from typing import TypeAlias

from kapiserver.storage.concurrency.clock import Clock, Timer
from kapiserver.storage.concurrency.subscriptions import Subscribers, Subscription

CHECK_SECONDS = 1.0
CHECKS_PER_READ = 60
"""After this many checks every file is read again."""

_log = logging.getLogger(__name__)

FileState: TypeAlias = tuple[int, int, int, int] | None
"""Modification time, size, inode and device of a file; None if it is missing."""


def file_state(file: Path) -> FileState:
    """Return the state of a file, which differs after a change."""
    try:
        stat = file.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino, stat.st_dev


def _file_states(files: Iterable[Path]) -> tuple[FileState, ...]:
    return tuple(map(file_state, files))


class _WatchedFiles:
    """Files that are read again together; see `FileWatch.subscribe`."""

    def __init__(self, states: Callable[[], Hashable], read: Callable[[], None]) -> None:
        self._states = states
        self._last = states()
        self._read = read

    def check(self, *, always: bool) -> None:
        """Read the files if they changed, or always."""
        states = self._states()
        if states == self._last and not always:
            return
        self._last = states
        try:
            self._read()
        except Exception:
            _log.exception("reading changed files failed")


class FileWatch:
    """The files of one server. The timer runs between `start` and `stop` while there are any."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._watched = Subscribers[_WatchedFiles]()
        self._timer: Timer | None = None
        self._is_started = False
        self._checks = 0

    def subscribe(self, states: Callable[[], Hashable], read: Callable[[], None]) -> Subscription:
        """Call `read` when files change, and once a minute.

        states  returns the states of the files; must not raise
        read    reads them again, and does nothing if their content is the same; logs errors
        """
        subscription = self._watched.subscribe(_WatchedFiles(states, read))
        self._schedule()
        return subscription

    def add_files(self, files: Sequence[Path], read: Callable[[], None]) -> None:
        """Watch these files, if there are any, as long as the server runs."""
        if files:
            self.subscribe(functools.partial(_file_states, files), read)

    def start(self) -> None:
        """Start to check the files. Call on the event loop."""
        self._is_started = True
        self._schedule()

    def stop(self) -> None:
        """Stop to check the files. Idempotent."""
        self._is_started = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def read_all(self) -> None:
        """Read all files again now."""
        for watched in self._watched:
            watched.check(always=True)

    def _schedule(self) -> None:
        if self._is_started and self._watched and self._timer is None:
            self._timer = self._clock.call_later(CHECK_SECONDS, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._checks += 1
        always = self._checks % CHECKS_PER_READ == 0
        for watched in self._watched:
            watched.check(always=always)
        self._schedule()
