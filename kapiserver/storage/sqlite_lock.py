"""The lock of a store's SQLite file: one process at a time may open the store."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
from pathlib import Path

from kapiserver.storage.errors import StoreLocked, Unavailable


class FileLock:
    """An exclusive lock on a file; released when the process ends."""

    def __init__(self, path: Path) -> None:
        """Take the lock of a store. Raises StoreLocked, OSError and sqlite3.Error."""
        file = Path(f"{path}.lock")
        _create_private(file)
        if stat.S_IMODE(file.stat().st_mode) & 0o077:  # created by an earlier version
            file.chmod(0o600)
        # An open exclusive transaction on an empty database: SQLite's locks are portable.
        self._connection = sqlite3.connect(
            file, timeout=0, isolation_level=None, check_same_thread=False
        )
        try:
            # The transaction writes nothing: the disk may be full.
            self._connection.execute("PRAGMA journal_mode = MEMORY")
            self._connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            self._connection.close()
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                raise
            raise StoreLocked(
                f"{path} is in use by another kapiserver: stop it, or choose another --storage"
            ) from error

    def release(self) -> None:
        """Release the lock. Idempotent."""
        self._connection.close()


def _create_private(path: Path) -> None:
    """Create a file if it is missing, readable by its owner only. Raises OSError."""
    # An existing file is not opened: closing it would end the locks that this process has on it.
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def lock_file(path: Path) -> FileLock:
    """Create the file if it is missing, readable by its owner only, and return its lock. Raises
    StoreLocked, Unavailable."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _create_private(path)
        return FileLock(path)
    except (OSError, sqlite3.Error) as error:
        raise Unavailable(f"cannot open {path}: {error}") from error
