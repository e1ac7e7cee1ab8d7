"""A pseudo-terminal for a program, which has it as its controlling terminal (POSIX only).

The program gets `program_end`; what it writes there is read here, and what is written here is its
input. See pty(7) and tty_ioctl(4).
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import struct
import termios
from collections.abc import Callable
from typing import Any

_END_OF_INPUT = b"\x04"
"""What a person types at the end of the input: Control-D."""


class Terminal:
    """An open pseudo-terminal."""

    def __init__(self) -> None:
        self._fd, self.program_end = os.openpty()
        os.set_blocking(self._fd, False)

    def take_control(self) -> None:
        """Make it the controlling terminal of this process, which is about to run the program."""
        os.setsid()
        fcntl.ioctl(self.program_end, termios.TIOCSCTTY, 0)

    def close_program_end(self) -> None:
        """Close the program's end in this process, when the program has it."""
        os.close(self.program_end)

    async def read(self, size: int) -> bytes:
        """Return what the program has written, at most `size` bytes; b"" when no process has the
        terminal any more."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                return os.read(self._fd, size)
            except BlockingIOError:
                await self._ready(loop.add_reader, loop.remove_reader)
            except OSError:
                return b""

    async def write(self, data: bytes) -> None:
        """Write the program's input. Raises OSError if no process has the terminal any more."""
        loop = asyncio.get_running_loop()
        while data:
            try:
                data = data[os.write(self._fd, data) :]
            except BlockingIOError:
                await self._ready(loop.add_writer, loop.remove_writer)

    async def end_input(self) -> None:
        """Tell the program that no more input follows. Raises OSError as `write` does."""
        await self.write(_END_OF_INPUT)

    def resize(self, width: int, height: int) -> None:
        """Set the size in characters. The program gets the signal SIGWINCH."""
        size = (min(max(text, 0), 0xFFFF) for text in (height, width))
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))

    def close(self) -> None:
        """Close this end. Programs that still have the terminal get the signal SIGHUP."""
        os.close(self._fd)

    async def _ready(self, add: Callable[..., Any], remove: Callable[[int], Any]) -> None:
        ready = asyncio.Event()
        add(self._fd, ready.set)
        try:
            await ready.wait()
        finally:
            remove(self._fd)
