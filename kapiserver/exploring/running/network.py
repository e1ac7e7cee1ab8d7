"""Whether data of this process is on its way through the network stack.

On a busy machine, what a program sends on the loopback may reach the other end some time later:
Linux leaves it to a thread of the kernel. Systems without /dev/fd, TIOCOUTQ or TCP_QUICKACK do not
say; then nothing is said to be on its way.
"""

from __future__ import annotations

import contextlib
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
    files = _files()
    if not any(map(_has_unacknowledged_data, files)):
        return False
    # A socket acknowledges what it has received after up to 40 ms, and at once if it is told to.
    for file in files:
        _acknowledge(file)
    return any(map(_has_unacknowledged_data, files))


def _files() -> list[int]:
    """Return the files of this process that may be sockets: those behind the standard files, which
    may be terminals."""
    try:
        return [file for file in map(int, os.listdir("/dev/fd")) if file > _LAST_STANDARD_FILE]
    except OSError:
        return []


def _has_unacknowledged_data(file: int) -> bool:
    try:
        return bool(fcntl.ioctl(file, termios.TIOCOUTQ, _NOTHING) != _NOTHING)
    except OSError:  # closed meanwhile, a socket that listens, or no socket
        return False


def _acknowledge(file: int) -> None:
    """Send the acknowledgement that a socket has put off."""
    with contextlib.suppress(OSError):  # no TCP, or closed meanwhile
        connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM, fileno=file)
        try:
            connection.setsockopt(socket.IPPROTO_TCP, _QUICK_ACK, 1)
        finally:
            connection.detach()
