"""The locks of a store's SQLite file: one process at a time may open the store.

SQLite itself lets several processes write a file, which would each serve from a watch cache of its
own. Two locks keep them apart. The first is on a file beside the store, works on every system and
is known to earlier versions; links in the path are resolved before. The second is on the store's
file itself (its device and inode), which may have several names: hard links, or mounts of the file.
Only Linux has locks for that: the usual POSIX locks of a process end when it closes any descriptor
of the file, as SQLite does. Elsewhere a file with several names is refused.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import sqlite3
import stat
import struct
import threading
from pathlib import Path

from kapiserver.storage.errors import StoreLocked, Unavailable

try:
    import fcntl
except ImportError:  # Windows
    _SET_LOCK = None
else:
    _SET_LOCK = getattr(fcntl, "F_OFD_SETLK", None)

_LOCK_BYTE = 1 << 62
"""The byte that is locked. SQLite locks bytes near 1 << 30."""
_IS_LOCKED = (errno.EAGAIN, errno.EACCES)

_log = logging.getLogger(__name__)
_guard = threading.Lock()
_own_files: set[tuple[int, int]] = set()
"""Device and inode of the files that this process has locked."""


class FileLock:
    """An exclusive lock on a store; released when the process ends."""

    def __init__(self, path: Path) -> None:
        """Take the lock of a store, which may not exist yet. Raises StoreLocked, OSError and
        sqlite3.Error."""
        path = _resolved(path)
        self._connection = _lock_beside(path)
        try:
            self._inode = _InodeLock(path) if path.exists() else None
        except BaseException:
            self._connection.close()
            raise

    def release(self) -> None:
        """Release the lock, after SQLite has closed the store. Idempotent."""
        if self._inode is not None:
            self._inode.release()
            self._inode = None
        self._connection.close()


class _InodeLock:
    """An exclusive lock on a file, whatever its names."""

    def __init__(self, path: Path) -> None:
        """Take the lock. Raises StoreLocked, OSError."""
        status = path.stat()
        if status.st_nlink > 1:
            _log.warning(
                "%s has %d names (hard links): SQLite keeps its log beside the name, so always use "
                "the same name",
                path,
                status.st_nlink,
            )
        self._file = status.st_dev, status.st_ino
        self._descriptor: int | None = None
        with _guard:
            # Closing a descriptor ends the locks that SQLite has on the file in this process.
            if self._file in _own_files:
                raise _locked(path)
            if _SET_LOCK is not None:
                self._descriptor = _lock_descriptor(path)
            if self._descriptor is None and status.st_nlink > 1:
                raise StoreLocked(
                    f"{path} has {status.st_nlink} names (hard links), and this system cannot lock "
                    "it under all: remove the other names"
                )
            _own_files.add(self._file)

    def release(self) -> None:
        """Release the lock."""
        with _guard:
            _own_files.discard(self._file)
            if self._descriptor is not None:
                os.close(self._descriptor)


def _lock_descriptor(path: Path) -> int | None:
    """Open a file and lock it until the descriptor is closed; return the descriptor, None if the
    file system has no such locks. Raises StoreLocked, OSError."""
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    # struct flock: type, whence, start, length, pid.
    lock = struct.pack("hhqqi0q", fcntl.F_WRLCK, os.SEEK_SET, _LOCK_BYTE, 1, 0)
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, lock)
    except OSError as error:
        os.close(descriptor)
        if error.errno in _IS_LOCKED:
            raise _locked(path) from error
        return None
    return descriptor


def _lock_beside(path: Path) -> sqlite3.Connection:
    """Lock a file beside the store, and return the connection that has the lock. Raises
    StoreLocked, OSError and sqlite3.Error."""
    file = Path(f"{path}.lock")
    _create_private(file)
    if stat.S_IMODE(file.stat().st_mode) & 0o077:  # created by an earlier version
        file.chmod(0o600)
    # An open exclusive transaction on an empty database: SQLite's locks are portable.
    connection = sqlite3.connect(file, timeout=0, isolation_level=None, check_same_thread=False)
    try:
        # The transaction writes nothing: the disk may be full.
        connection.execute("PRAGMA journal_mode = MEMORY")
        connection.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        connection.close()
        if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
            raise
        raise _locked(path) from error
    return connection


def _locked(path: Path) -> StoreLocked:
    return StoreLocked(
        f"{path} is in use by another kapiserver: stop it, or choose another --storage"
    )


def _resolved(path: Path) -> Path:
    """Return the path without symbolic links. On Windows, whose real paths have another form, the
    path stays as it is."""
    return path if os.name == "nt" else Path(os.path.realpath(path))


def _create_private(path: Path) -> None:
    """Create a file if it is missing, readable by its owner only. Raises OSError."""
    # An existing file is not opened: closing it would end the locks that this process has on it.
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def check_name(path: Path) -> None:
    """Check that a store, which may be served under this name, is not served under another one:
    SQLite would not see the log of the other name. Raises StoreLocked, OSError and sqlite3.Error.
    """
    if path.stat().st_nlink == 1:
        return
    path = _resolved(path)
    try:
        connection = _lock_beside(path)
    except StoreLocked:
        return
    try:
        _InodeLock(path).release()
    finally:
        connection.close()


def lock_file(path: Path) -> FileLock:
    """Create the file if it is missing, readable by its owner only, and return its lock. Raises
    StoreLocked, Unavailable."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _create_private(_resolved(path))
        return FileLock(path)
    except (OSError, sqlite3.Error) as error:
        raise Unavailable(f"cannot open {path}: {error}") from error
