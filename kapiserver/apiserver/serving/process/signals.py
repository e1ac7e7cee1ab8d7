"""The effects of signals on a running server, which drains before it ends.

    SIGTERM, SIGINT   drain, then end; a second one ends the process at once
    SIGQUIT           write the stacks, drain, then end
    SIGHUP            read certificates, client CAs, tokens and encryption keys again. When the
                      terminal of the server was closed: drain, then end
    SIGUSR1           write the stack of every thread and task to standard error
    SIGUSR2           log a line with the state of the server

A worker process ends when its supervisor sends SIGTERM. On Windows, only Ctrl-C has an effect.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import functools
import io
import logging
import os
import signal
import stat
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Mapping

from kapiserver.apiserver.output import STANDARD_ERROR
from kapiserver.apiserver.serving.process.logs import FIELDS

MAX_STACKS = 100
"""The maximum number of different stacks of tasks in one dump."""
MAX_FRAMES = 30

_TERMINAL = "/dev/tty"
_STANDARD_ERROR = 2
"""The file descriptor; sys.stderr may have none."""

_log = logging.getLogger(__name__)


class ServerSignals:
    """The signal handlers of one process; the constructor installs them on the running loop.

    stop    set when the server must drain and end
    """

    def __init__(self, *, worker: bool = False) -> None:
        self.stop = asyncio.Event()
        self._worker = worker
        self._reload: Callable[[], None] = _do_nothing
        self._status: Callable[[], Mapping[str, object]] = dict
        self._had_terminal = has_terminal()
        add = asyncio.get_running_loop().add_signal_handler
        with contextlib.suppress(NotImplementedError):  # Windows: Ctrl-C raises instead
            for number in (signal.SIGTERM,) if worker else (signal.SIGTERM, signal.SIGINT):
                add(number, functools.partial(self._on_stop, number))
            add(signal.SIGHUP, self._on_hangup)
            add(signal.SIGUSR1, write_stacks)
            add(signal.SIGUSR2, self._log_status)
            add(signal.SIGQUIT, self._on_quit)
            standard_error = _open_standard_error()
            for number in (signal.SIGUSR1, signal.SIGQUIT):
                # Writes the stack of the main thread at once, even if the event loop is blocked.
                # Not the stacks of other threads: they run at the same time, and reading their
                # frames could crash the process.
                faulthandler.register(number, standard_error, all_threads=False, chain=True)

    def serve(
        self, *, reload: Callable[[], None], status: Callable[[], Mapping[str, object]]
    ) -> None:
        """Use the functions of a server that has started."""
        self._reload, self._status = reload, status

    def _on_stop(self, number: signal.Signals) -> None:
        if self.stop.is_set():
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        self.stop.set()

    def _on_hangup(self) -> None:
        if self._had_terminal and not self._worker and not has_terminal():
            self.stop.set()
        else:
            self._reload()

    def _on_quit(self) -> None:
        write_stacks()
        if not self._worker:
            self.stop.set()

    def _log_status(self) -> None:
        fields = {
            "tasks": len(asyncio.all_tasks()),
            "threads": threading.active_count(),
            "descriptors": _descriptor_count(),
            **self._status(),
        }
        _log.warning("status", extra={FIELDS: fields})


def _open_standard_error() -> int:
    """Return a descriptor of standard error for the main thread to write to. If it is a pipe or a
    terminal, it is opened again, because nobody may read it: such a write fails at once, and other
    processes that share standard error are not affected."""
    with contextlib.suppress(OSError):  # it is closed or another user's, or there is no /proc
        kind = os.fstat(_STANDARD_ERROR).st_mode
        if stat.S_ISFIFO(kind) or stat.S_ISCHR(kind):
            flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY
            return os.open(f"/proc/self/fd/{_STANDARD_ERROR}", flags)
    return _STANDARD_ERROR


def write_stacks() -> None:
    """Write the stacks of the other threads and of all tasks of the running loop to standard
    error."""
    frames = sys._current_frames()
    for thread in threading.enumerate():
        frame = frames.get(thread.ident or 0)
        if frame is not None and thread is not threading.current_thread():
            stack = "".join(traceback.format_stack(frame, limit=MAX_FRAMES))
            STANDARD_ERROR.write(f"\nthread {thread.name} (most recent call last):\n{stack}")
    _write_task_stacks()


def _write_task_stacks() -> None:
    """Write the stacks of tasks; equal stacks once, with their number."""
    stacks: Counter[str] = Counter()
    for task in asyncio.all_tasks():
        text = io.StringIO()
        task.print_stack(limit=MAX_FRAMES, file=text)
        stacks[text.getvalue().partition("\n")[2]] += 1
    for stack, count in stacks.most_common(MAX_STACKS):
        STANDARD_ERROR.write(f"\n{count} tasks (most recent call last):\n{stack}")
    if len(stacks) > MAX_STACKS:
        STANDARD_ERROR.write(f"\n{len(stacks) - MAX_STACKS} more stacks of tasks\n")


def _do_nothing() -> None:
    pass


def has_terminal() -> bool:
    """Report whether the process has a controlling terminal that is open."""
    try:
        os.close(os.open(_TERMINAL, os.O_RDONLY))
    except OSError:
        return False
    return True


def _descriptor_count() -> int:
    """Return the number of open file descriptors, 0 if the system does not tell."""
    try:
        return len(os.listdir("/proc/self/fd")) - 1
    except OSError:
        return 0
