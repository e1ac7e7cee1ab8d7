"""A log file that is rotated when it is full; a number of old files is kept.

Mirrors gopkg.in/natefinch/lumberjack, which kube-apiserver uses for --audit-log-path.
"""

from __future__ import annotations

import gzip
import logging
import os
import queue
import re
import shutil
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from kapiserver.apiserver.output import write_all
from kapiserver.apiserver.private_files import open_private

CLOSE_SECONDS = 5.0
"""How long the end of a server waits until old files are compressed."""
_DAY_SECONDS = 24 * 60 * 60
_COMPRESSED = ".gz"
_STANDARD_OUTPUT = 1
"""The file descriptor."""

_log = logging.getLogger(__name__)


class LogFile:
    """A file that grows to `max_bytes`; old files have the time of their end in their names.

    path        `-` for standard output
    max_age     days that old files are kept; 0 for ever
    max_backups old files that are kept; 0 for all
    compress    whether old files are compressed with gzip
    now         returns seconds since 1970
    """

    def __init__(
        self,
        path: str,
        *,
        now: Callable[[], float],
        max_bytes: int = 0,
        max_age: int = 0,
        max_backups: int = 0,
        compress: bool = False,
    ) -> None:
        self._path = None if path == "-" else Path(path)
        self._now = now
        self._max_bytes = max_bytes
        self._max_age = max_age
        self._max_backups = max_backups
        self._compress = compress
        self._size = 0
        self._file: BinaryIO | None = None
        self._old_files: OldFiles | None = None

    def open(self) -> None:
        """Open the file for appending; missing directories are created. A named pipe is opened by
        the first write, because opening it waits for a reader. Raises OSError."""
        if self._path is None or not self._path.is_fifo():
            self._open()

    def _open(self) -> None:
        if self._path is None:
            # Not `sys.stdout`, whose lock a write would hold while nobody reads.
            self._file = os.fdopen(os.dup(_STANDARD_OUTPUT), "wb", buffering=0)
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = open_private(self._path, "ab", buffering=0)
        self._size = self._path.stat().st_size

    def write(self, lines: Sequence[bytes]) -> None:
        """Append whole lines, with one system call if the file has room for them. A file that
        another process has renamed, such as another worker of this server or logrotate, is left to
        it. Raises OSError; some lines may then be written, and one of them cut."""
        if self._file is None or self._was_renamed():
            self._close_file()
            self._open()
        fitting: list[bytes] = []
        for line in lines:
            if self._max_bytes and self._size and self._size + len(line) > self._max_bytes:
                self._append(fitting)
                fitting = []
                self._rotate()
            fitting.append(line)
            self._size += len(line)
        self._append(fitting)

    def _append(self, lines: Sequence[bytes]) -> None:
        assert self._file is not None
        write_all(self._file.fileno(), b"".join(lines))

    def close(self) -> None:
        """Close the file, and wait a little for the compression of old ones. Idempotent."""
        self._close_file()
        if self._old_files is not None:
            self._old_files.stop()
            self._old_files = None

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = None

    def _was_renamed(self) -> bool:
        """Return whether the path leads to another file than the open one; note the size, which
        grows by what others write too."""
        if self._path is None or self._file is None:
            return False
        stat = os.fstat(self._file.fileno())
        self._size = stat.st_size
        try:
            return not os.path.samestat(stat, self._path.stat())
        except FileNotFoundError:
            return True

    def _rotate(self) -> None:
        if self._path is None:
            return
        self._close_file()
        self._path.rename(self._name_of_old_file(self._path))
        self._open()
        if self._old_files is None:
            self._old_files = OldFiles(
                self._path,
                max_age=self._max_age,
                max_backups=self._max_backups,
                compress=self._compress,
            )
        self._old_files.tidy(self._now())

    def _name_of_old_file(self, path: Path) -> Path:
        """Return a path with the present time; another process may have taken it."""
        now = self._now()
        while True:
            ended = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H-%M-%S.%f")[:-3]
            old = path.with_name(f"{path.stem}-{ended}{path.suffix}")
            if not (old.exists() or old.with_name(f"{old.name}{_COMPRESSED}").exists()):
                return old
            now += 0.001


class OldFiles:
    """The old files of a log. A thread compresses and removes them, so that nobody who writes an
    event waits for that."""

    def __init__(self, path: Path, *, max_age: int, max_backups: int, compress: bool) -> None:
        self._path = path
        self._max_age = max_age
        self._max_backups = max_backups
        self._compress = compress
        stem, suffix = re.escape(path.stem), re.escape(path.suffix)
        self._pattern = re.compile(rf"{stem}-\d{{4}}-\d\d-\d\dT[\d.-]+{suffix}(\.gz)?")
        self._times: queue.SimpleQueue[float | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="audit-old-files", daemon=True)
        self._thread.start()

    def tidy(self, now: float) -> None:
        """Remove and compress files soon; `now` is in seconds since 1970."""
        self._times.put(now)

    def stop(self) -> None:
        """Wait until the files are tidy, but at most CLOSE_SECONDS."""
        self._times.put(None)
        self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        while (now := self._times.get()) is not None:
            try:
                self._remove(now)
                if self._compress:
                    self._compress_all()
            except OSError as error:  # a full disk; the next call tries again
                _log.warning("the old audit logs are not compressed or removed: %s", error)

    def _present(self) -> list[Path]:
        """Return the old files, the newest first."""
        files = self._path.parent.iterdir()
        return sorted((file for file in files if self._pattern.fullmatch(file.name)), reverse=True)

    def _remove(self, now: float) -> None:
        oldest = now - self._max_age * _DAY_SECONDS
        for position, file in enumerate(self._present()):
            too_many = self._max_backups and position >= self._max_backups
            if too_many or (self._max_age and file.stat().st_mtime < oldest):
                file.unlink(missing_ok=True)

    def _compress_all(self) -> None:
        for file in self._present():
            if file.suffix != _COMPRESSED:
                _compress_file(file)


def _compress_file(file: Path) -> None:
    """Replace a file by a compressed one that only its owner can read. Raises OSError."""
    temporary = file.with_name(f"{file.name}{_COMPRESSED}.new")
    try:
        with (
            file.open("rb") as source,
            open_private(temporary, "wb") as raw,
            gzip.open(raw, "wb") as target,
        ):
            shutil.copyfileobj(source, target)
        temporary.replace(file.with_name(f"{file.name}{_COMPRESSED}"))
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    file.unlink()
