"""Unix sockets of a server: private files, and the user of the process at the other end.

A socket has mode 0600 in a directory of mode 0700, so that the kernel refuses other users. A lock
file beside each socket tells a running server from one that crashed. Mirrors the security
descriptor of csi-proxy's named pipes.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
import struct
from pathlib import Path

_BACKLOG = 128
_MAX_PATH = 107
"""Bytes of a path in sockaddr_un of Linux, without the final zero."""
_CREDENTIALS = struct.Struct("iII")
"""struct ucred of Linux: pid, uid, gid."""


class SocketInUse(Exception):
    """Another process serves the socket."""


class SocketFile:
    """A listening socket at a path; `close` removes it.

    path    the path of the socket
    socket  the listening socket, which does not block
    """

    def __init__(self, path: Path) -> None:
        """Replace the socket of a process that has ended. Raises SocketInUse if another process
        serves the path, and OSError."""
        if len(os.fsencode(path)) > _MAX_PATH:
            raise OSError(
                errno.ENAMETOOLONG, f"a socket's path has at most {_MAX_PATH} bytes", str(path)
            )
        self.path = path
        _make_private_folder(path.parent)
        self._lock = _lock(path)
        try:
            _check_replaceable(path)
            self.socket = _listen(path)
        except BaseException:
            os.close(self._lock)
            raise

    def close(self) -> None:
        """Stop listening and remove the file. The lock file stays: removing it would race with a
        process that waits for it."""
        self.socket.close()
        self.path.unlink(missing_ok=True)
        os.close(self._lock)


def peer_uid(connection: socket.socket) -> int | None:
    """Return the user id of the process that connected; None where the system does not tell."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    uid: int = _CREDENTIALS.unpack(
        connection.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size)
    )[1]
    return uid


def is_allowed(uid: int | None) -> bool:
    """Report whether a process of that user may connect: the server's own user and root may."""
    return uid is None or uid in (0, os.geteuid())


def _make_private_folder(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    status = folder.stat()
    if status.st_uid not in (0, os.geteuid()) or stat.S_IMODE(status.st_mode) & 0o022:
        raise PermissionError(
            errno.EPERM,
            "other users can replace files in the directory of the sockets",
            str(folder),
        )


def _lock(path: Path) -> int:
    import fcntl  # Windows has none

    lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise _in_use(path) from None
    return lock


def _check_replaceable(path: Path) -> None:
    """Raise SocketInUse for a socket that a program without the lock serves, and FileExistsError
    for another kind of file."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise FileExistsError(errno.EEXIST, "there is a file that is not a socket", str(path))
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return
        except BlockingIOError:  # its backlog is full
            pass
    raise _in_use(path)


def _in_use(path: Path) -> SocketInUse:
    return SocketInUse(
        f"{path} is in use by another process: stop it, or choose another directory for the sockets"
    )


def _listen(path: Path) -> socket.socket:
    """Bind under another name and rename, so that no client sees the socket before it has its mode
    and listens."""
    temporary = path.with_name(f".{os.getpid()}.new")
    temporary.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX)
    try:
        listening.setblocking(False)
        listening.bind(str(temporary))
        temporary.chmod(0o600)
        listening.listen(_BACKLOG)
        temporary.rename(path)
    except BaseException:
        listening.close()
        temporary.unlink(missing_ok=True)
        raise
    return listening
