"""Whether data of this process is on its way through the network stack.

On a busy machine, what a program sends on the loopback may reach the other end some time later:
Linux leaves it to a thread of the kernel. Systems without /dev/fd, TIOCOUTQ or TCP_QUICKACK do not
say; then nothing is said to be on its way.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import struct
from collections.abc import Iterator

try:
    import fcntl
    import termios
except ImportError:  # Windows
    fcntl = termios = None  # type: ignore[assignment]

_QUICK_ACK: int = getattr(socket, "TCP_QUICKACK", 0)


def is_in_flight() -> bool:
    """Whether a socket of this process has sent data that the other end has yet to receive."""
    if fcntl is None or not _QUICK_ACK:
        return False
    files = list(_sockets())
    if not any(map(_unacknowledged_bytes, files)):
        return False
    # A socket acknowledges what it has received after up to 40 ms, and at once if it is told to.
    for file in files:
        _acknowledge(file)
    return any(map(_unacknowledged_bytes, files))


def _sockets() -> Iterator[int]:
    """Yield the files of this process that are sockets."""
    try:
        names = os.listdir("/dev/fd")
    except OSError:
        return
    for name in names:
        try:
            if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                yield int(name)
        except OSError:  # closed meanwhile
            continue


def _unacknowledged_bytes(file: int) -> int:
    try:
        answer = fcntl.ioctl(file, termios.TIOCOUTQ, bytes(4))
    except OSError:  # closed meanwhile, or a socket that listens
        return 0
    (number,) = struct.unpack("i", answer)
    return int(number)


def _acknowledge(file: int) -> None:
    """Send the acknowledgement that a socket has put off."""
    with contextlib.suppress(OSError):  # no TCP, or closed meanwhile
        connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM, fileno=file)
        try:
            connection.setsockopt(socket.IPPROTO_TCP, _QUICK_ACK, 1)
        finally:
            connection.detach()
