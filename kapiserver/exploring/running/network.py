"""Whether data of this process is on its way through the network stack.

On a busy machine, what a program sends on the loopback may reach the other end some time later:
Linux leaves it to a thread of the kernel. Systems without /dev/fd or TIOCOUTQ do not say; then
nothing is said to be on its way.
"""

from __future__ import annotations

import os
import stat
import struct

try:
    import fcntl
    import termios
except ImportError:  # Windows
    fcntl = termios = None  # type: ignore[assignment]


def is_in_flight() -> bool:
    """Whether a socket of this process has sent data that the other end has yet to receive."""
    if fcntl is None:
        return False
    try:
        names = os.listdir("/dev/fd")
    except OSError:
        return False
    return any(_unreceived_bytes(int(name)) for name in names)


def _unreceived_bytes(file: int) -> int:
    try:
        if not stat.S_ISSOCK(os.fstat(file).st_mode):
            return 0
        answer = fcntl.ioctl(file, termios.TIOCOUTQ, bytes(4))
    except OSError:  # closed meanwhile, or a socket that listens
        return 0
    (number,) = struct.unpack("i", answer)
    return int(number)
