"""Ends a program when its parent does: when its standard input closes, or a process ends.

Knows no server.
"""

from __future__ import annotations

import asyncio
import os
import stat
import sys
import threading
from collections.abc import Callable

CHECK_SECONDS = 0.5
"""How often to look for the process on systems without pidfd."""


def call_at_end_of_input(callback: Callable[[], None]) -> bool:
    """Call `callback` on the running loop when standard input ends; return whether that can be.

    Only a pipe or a socket ends with the process at its other side. A terminal, a file and
    /dev/null are not read."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (AttributeError, OSError, ValueError):  # no standard input
        return False
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return False
    loop = asyncio.get_running_loop()
    arguments = (sys.stdin.fileno(), loop, callback)
    # A daemon, because a blocking read cannot be cancelled.
    threading.Thread(target=_read_to_end, args=arguments, name="input", daemon=True).start()
    return True


def _read_to_end(
    descriptor: int, loop: asyncio.AbstractEventLoop, callback: Callable[[], None]
) -> None:
    try:
        while os.read(descriptor, 65536):
            pass
    except OSError:
        pass
    if not loop.is_closed():
        loop.call_soon_threadsafe(callback)


def call_at_exit_of(pid: int, callback: Callable[[], None]) -> None:
    """Call `callback` on the running loop when a process ends. Raises ProcessLookupError if there
    is no such process, ValueError on Windows."""
    try:
        _call_at_exit_of(pid, callback)
    except ProcessLookupError:
        raise ProcessLookupError(f"there is no process {pid}") from None


def _call_at_exit_of(pid: int, callback: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    if hasattr(os, "pidfd_open"):
        descriptor = os.pidfd_open(pid)

        def on_exit() -> None:
            loop.remove_reader(descriptor)
            os.close(descriptor)
            callback()

        loop.add_reader(descriptor, on_exit)
    elif sys.platform == "win32":  # os.kill would end the process
        raise ValueError("--parent-pid needs another system; give the program a pipe as its input")
    else:
        os.kill(pid, 0)
        loop.call_later(CHECK_SECONDS, _check, pid, callback)


def _check(pid: int, callback: Callable[[], None]) -> None:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        callback()
    except PermissionError:  # of another user
        asyncio.get_running_loop().call_later(CHECK_SECONDS, _check, pid, callback)
    else:
        asyncio.get_running_loop().call_later(CHECK_SECONDS, _check, pid, callback)
