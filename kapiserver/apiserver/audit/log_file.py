"""A log file that begins anew when it is full, and keeps a number of old files.

Mirrors gopkg.in/natefinch/lumberjack, which kube-apiserver uses for --audit-log-path.
"""

from __future__ import annotations

import gzip
import os
import re
import shutil
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

_DAY_SECONDS = 24 * 60 * 60


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

    def open(self) -> None:
        """Open the file for appending; missing directories are created. Raises OSError."""
        if self._path is None:
            self._file = sys.stdout.buffer
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._file = open(descriptor, "ab", buffering=0)  # noqa: SIM115
        self._size = self._path.stat().st_size

    def write(self, data: bytes) -> None:
        """Append whole lines. Raises OSError; a line may then be cut."""
        if self._file is None:
            self.open()
        if self._max_bytes and self._size and self._size + len(data) > self._max_bytes:
            self._rotate()
        assert self._file is not None
        self._file.write(data)
        self._size += len(data)
        if self._path is None:
            self._file.flush()

    def close(self) -> None:
        """Close the file. Idempotent."""
        if self._file is not None and self._path is not None:
            self._file.close()
        self._file = None

    def _rotate(self) -> None:
        if self._path is None:
            return
        self.close()
        ended = datetime.fromtimestamp(self._now(), UTC).strftime("%Y-%m-%dT%H-%M-%S.%f")[:-3]
        old = self._path.with_name(f"{self._path.stem}-{ended}{self._path.suffix}")
        self._path.rename(old)
        if self._compress:
            with old.open("rb") as source, gzip.open(f"{old}.gz", "wb") as target:
                shutil.copyfileobj(source, target)
            old.unlink()
        self._remove_old_files()
        self.open()

    def _remove_old_files(self) -> None:
        assert self._path is not None
        stem, suffix = re.escape(self._path.stem), re.escape(self._path.suffix)
        pattern = re.compile(rf"{stem}-\d{{4}}-\d\d-\d\dT[\d.-]+{suffix}(\.gz)?")
        old_files = sorted(
            (file for file in self._path.parent.iterdir() if pattern.fullmatch(file.name)),
            reverse=True,
        )
        oldest = self._now() - self._max_age * _DAY_SECONDS
        for position, file in enumerate(old_files):
            too_many = self._max_backups and position >= self._max_backups
            if too_many or (self._max_age and file.stat().st_mtime < oldest):
                file.unlink(missing_ok=True)
