"""Several processes that serve one port: a supervisor that serves nothing, and its workers.

Each worker is a whole server with listening sockets of its own on the shared port (SO_REUSEPORT),
so that the kernel spreads connections evenly; they know nothing of each other but the store. The
supervisor starts them, lets none call itself ready before all are, replaces one that dies, and
hands on the signal to stop. When it is killed itself, its workers stop. A fork shares what was
imported; nothing here may start a thread or a loop before it. Knows no store and no HTTP.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from kapiserver.apiserver.config import Config

RESTART_SECONDS = 1.0
"""Between two starts of one worker, at least."""
STOP_SECONDS = 20.0
"""Beyond `shutdown_timeout`: then a worker that has not stopped is killed."""
_STOPS = (signal.SIGTERM, signal.SIGINT)

_log = logging.getLogger(__name__)


class WorkerFailed(Exception):
    """Not all workers got ready; who failed has said why."""


class Seat:
    """A worker's end of the line to its supervisor."""

    def __init__(self, line: socket.socket, *, greets: bool) -> None:
        self._line = line
        self._line.setblocking(False)
        self.greets = greets
        """Whether this is the worker that tells the user where the server is."""

    async def everybody(self) -> None:
        """Say that this worker is ready, and return when all are. Raises WorkerFailed when they
        never will be."""
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(self._line, b"r")
        if not await loop.sock_recv(self._line, 1):
            raise WorkerFailed("stopped before all workers were ready")

    def when_left_alone(self, stop: Callable[[], None]) -> None:
        """Call back if the supervisor is gone."""
        loop = asyncio.get_running_loop()

        def look() -> None:
            loop.remove_reader(self._line)
            stop()

        loop.add_reader(self._line, look)


Work = Callable[[Config, Seat], None]
"""Serve until told to stop by SIGTERM; runs in a process of its own."""


@dataclass(slots=True)
class _Worker:
    """A worker as its supervisor sees it; without a process while it waits for its next start."""

    number: int
    pid: int = 0
    line: socket.socket | None = None
    ready: bool = False
    began: float = 0.0


def supervise(config: Config, work: Work) -> int:
    """Serve with `config.workers` processes until told to stop; returns the exit code.

    Raises OSError for a port that is taken, WorkerFailed when not all workers get ready.
    """
    with contextlib.ExitStack() as stack:
        config = replace(
            config,
            secure_port=stack.enter_context(_reserved(config.bind_address, config.secure_port)),
            insecure_port=stack.enter_context(_reserved("127.0.0.1", config.insecure_port)),
        )
        return _Supervisor(config, work).run()


class _Supervisor:
    def __init__(self, config: Config, work: Work) -> None:
        self._config = config
        self._work = work
        self._workers = [_Worker(number) for number in range(config.workers)]
        self._selector = selectors.DefaultSelector()
        self._all_ready = False
        self._signals: list[int] = []
        self._stop_until = 0.0

    def run(self) -> int:
        with self._hearing():
            for worker in self._workers:
                self._start(worker)
            try:
                while not self._stopping or any(worker.pid for worker in self._workers):
                    self._turn()
            finally:
                for worker in self._workers:
                    if worker.pid:
                        os.kill(worker.pid, signal.SIGKILL)
                        os.waitpid(worker.pid, 0)
        return 0

    @property
    def _stopping(self) -> bool:
        return self._stop_until > 0

    @contextlib.contextmanager
    def _hearing(self) -> Iterator[None]:
        """Signals as bytes that wake the selector."""
        ours, theirs = socket.socketpair()
        with ours, theirs, self._selector:
            ours.setblocking(False)
            theirs.setblocking(False)
            self._selector.register(ours, selectors.EVENT_READ)
            before = signal.set_wakeup_fd(theirs.fileno())
            numbers = (*_STOPS, signal.SIGCHLD)
            handlers = [signal.signal(number, lambda *_: None) for number in numbers]
            self._wakened = ours
            try:
                yield
            finally:
                signal.set_wakeup_fd(before)
                for number, handler in zip(numbers, handlers, strict=True):
                    signal.signal(number, handler)

    def _turn(self) -> None:
        for key, _ in self._selector.select(RESTART_SECONDS / 2):
            if key.data is None:
                for number in self._wakened.recv(4096):
                    if number in _STOPS:
                        self._stop()
            else:
                self._listen(key.data)
        for worker in self._workers:
            self._look_after(worker)

    def _listen(self, worker: _Worker) -> None:
        """Hear that a worker is ready, and tell those who wait for that."""
        assert worker.line is not None
        try:
            if not worker.line.recv(1):
                raise ConnectionResetError
        except OSError:  # it has ended; its process will say so
            self._selector.unregister(worker.line)
            return
        worker.ready = True
        if self._all_ready:
            waiting = [worker]
        elif all(one.ready for one in self._workers):
            waiting, self._all_ready = self._workers, True
        else:
            return
        for one in waiting:
            if one.line is not None:
                with contextlib.suppress(OSError):
                    one.line.send(b"g")

    def _look_after(self, worker: _Worker) -> None:
        """Notice its end, and give it a successor."""
        now = time.monotonic()
        if worker.pid:
            pid, status = os.waitpid(worker.pid, os.WNOHANG)
            if pid:
                self._bury(worker, os.waitstatus_to_exitcode(status))
            elif self._stopping and now > self._stop_until:
                os.kill(worker.pid, signal.SIGKILL)
        if not worker.pid and not self._stopping and now >= worker.began + RESTART_SECONDS:
            self._start(worker)

    def _bury(self, worker: _Worker, code: int) -> None:
        if worker.line is not None:
            with contextlib.suppress(KeyError):
                self._selector.unregister(worker.line)
            worker.line.close()
        worker.pid, worker.line, worker.ready = 0, None, False
        if self._stopping:
            return
        if not self._all_ready:
            raise WorkerFailed(f"worker {worker.number} did not get ready")
        words = f"exit code {code}" if code >= 0 else f"signal {-code}"
        _log.error("worker %d ended with %s, starting another", worker.number, words)

    def _stop(self) -> None:
        """The first time gently."""
        number = signal.SIGKILL if self._stopping else signal.SIGTERM
        self._stop_until = time.monotonic() + self._config.shutdown_timeout + STOP_SECONDS
        for worker in self._workers:
            if worker.pid:
                os.kill(worker.pid, number)
            if worker.line is not None and not self._all_ready:
                worker.line.shutdown(socket.SHUT_WR)  # it waits for the others

    def _start(self, worker: _Worker) -> None:
        ours, theirs = socket.socketpair()
        worker.began = time.monotonic()
        # No signal may come between the fork and the worker's own handlers.
        signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)
        pid = os.fork()
        if not pid:
            ours.close()
            self._become(Seat(theirs, greets=worker.number == 0 and not self._all_ready))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPS)
        theirs.close()
        worker.pid, worker.line = pid, ours
        self._selector.register(ours, selectors.EVENT_READ, worker)

    def _become(self, seat: Seat) -> None:
        """Go on as a worker; does not return."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            # A terminal's Ctrl-C reaches everybody: the supervisor's word counts.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            self._selector.close()
            for worker in self._workers:  # or their ends would outlive the supervisor
                if worker.line is not None:
                    worker.line.close()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPS)
            self._work(self._config, seat)
            code = 0
        except Exception as error:
            sys.stderr.write(f"kapiserver: {error}\n")
            _log.debug("the worker failed", exc_info=True)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)


@contextlib.contextmanager
def _reserved(host: str, port: int | None) -> Iterator[int | None]:
    """Hold a port, a free one for 0, that only the workers can share. Raises OSError."""
    if port is None:
        yield None
        return
    found = socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    with socket.socket(found[0], socket.SOCK_STREAM) as alone:
        alone.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        alone.bind(found[4])  # fails where anybody has it, with SO_REUSEPORT or without
        address = alone.getsockname()
    with socket.socket(found[0], socket.SOCK_STREAM) as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind(address)
        yield address[1]
