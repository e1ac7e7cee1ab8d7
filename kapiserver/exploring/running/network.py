"""Whether data of this process is on its way through the network stack.

On a busy machine, what a program sends on the loopback may reach the other end some time later:
Linux leaves it to a thread of the kernel. Systems without /dev/fd, TIOCOUTQ or TCP_QUICKACK do not
say; then nothing is said to be on its way.
"""

from __future__ import annotations

import os
import socket

try:
    import fcntl
    import termios
except ImportError:  # Windows
    fcntl = termios = None  # type: ignore[assignment]

_QUICK_ACK: int = getattr(socket, "TCP_QUICKACK", 0)
_LAST_STANDARD_FILE = 2
_NOTHING = bytes(4)
"""The number of bytes that are not acknowledged, an int of C, if there are none."""


def is_in_flight() -> bool:
    """Whether a socket of this process has sent data that the other end has yet to receive."""
    if fcntl is None or not _QUICK_ACK:
        return False
    unacknowledged = {file: _unacknowledged(file) for file in _files()}
    senders = [file for file, size in unacknowledged.items() if size not in (None, _NOTHING)]
    if not senders:
        return False
    # A socket acknowledges what it has received after up to 40 ms, and at once if it is told to.
    for file, size in unacknowledged.items():
        if size is not None:
            _acknowledge(file)
    return any(_unacknowledged(file) not in (None, _NOTHING) for file in senders)


def _files() -> list[int]:
    """Return the files of this process that may be sockets: those behind the standard files, which
    may be terminals."""
    try:
        return [file for file in map(int, os.listdir("/dev/fd")) if file > _LAST_STANDARD_FILE]
    except OSError:
        return []


def _unacknowledged(file: int) -> bytes | None:
    """Return the number of bytes that the other end of a socket has yet to acknowledge, an int of
    C; None for other files."""
    try:
        return fcntl.ioctl(file, termios.TIOCOUTQ, _NOTHING)
    except OSError:  # closed meanwhile, a socket that listens, or no socket
        return None


def _acknowledge(file: int) -> None:
    """Send the acknowledgement that a socket has put off."""
    connection = socket.SocketType(socket.AF_INET, socket.SOCK_STREAM, fileno=file)
    try:
        connection.setsockopt(socket.IPPROTO_TCP, _QUICK_ACK, 1)
    except OSError:  # no TCP, or closed meanwhile
        pass
    finally:
        connection.detach()
