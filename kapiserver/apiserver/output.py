"""Writes to standard output, standard error and log files without blocking the event loop.

Whoever started the server may not read its output: a pipe is full after 64 KiB, and a write to it
waits for ever. A network file system may be slow. A thread therefore writes, to the descriptor
itself: the locks of `sys.stdout` and `sys.stderr` would be held by a thread that waits, and the
interpreter needs them to end.
"""

from __future__ import annotations

import contextlib
import os
import queue
import select
import threading

MAX_WAITING_BYTES = 4 << 20
"""Output that waits for the thread. More is dropped."""
CLOSE_SECONDS = 2.0
"""How long the end of the process waits until the output is written."""


def write_all(descriptor: int, data: bytes) -> None:
    """Write all bytes, however long that takes. Raises OSError."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:  # the process that shares the descriptor made it non-blocking
            select.select((), (descriptor,), ())


class BackgroundWriter:
    """Writes to a descriptor in a thread, which the first write starts. Output that finds
    MAX_WAITING_BYTES waiting is dropped; a line tells how many times that happened. Errors, such as
    a full disk, are ignored: there is nowhere to report them."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._reset()
        if hasattr(os, "register_at_fork"):  # a forked process has no thread
            os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._queue: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._waiting_bytes = 0
        self._dropped = 0
        self._thread: threading.Thread | None = None

    def write(self, text: str) -> None:
        """Queue a text, which should end with a newline."""
        data = text.encode(errors="backslashreplace")
        with self._lock:
            if self._waiting_bytes + len(data) > MAX_WAITING_BYTES:
                self._dropped += 1
                return
            self._waiting_bytes += len(data)
            self._queue.put(data)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="output", daemon=True)
                self._thread.start()

    def close(self, seconds: float = CLOSE_SECONDS) -> None:
        """Wait until the queued output is written, for so long at most. A later write starts a new
        thread."""
        with self._lock:
            thread, self._thread = self._thread, None
            if thread is None:
                return
            self._queue.put(None)
        thread.join(seconds)

    def _run(self) -> None:
        is_closed = False
        while not is_closed:
            parts = [self._queue.get()]
            while not self._queue.empty():
                parts.append(self._queue.get())
            is_closed = None in parts
            data = b"".join(filter(None, parts))
            with contextlib.suppress(OSError):
                write_all(self._descriptor, data)
            with self._lock:
                self._waiting_bytes -= len(data)
                dropped, self._dropped = self._dropped, 0
            if dropped:
                self.write(f"{dropped} lines of output were dropped: nobody read them\n")


STANDARD_OUTPUT = BackgroundWriter(1)
STANDARD_ERROR = BackgroundWriter(2)
