"""Several worker processes that serve one port, and the supervisor that starts and stops them.

Each worker is a complete server with its own listening sockets on the shared port (SO_REUSEPORT),
so that the kernel spreads connections evenly; workers share the store, and memory that never
changes (`storage/cache/sharing.py`). The limits of requests in flight are those of the whole
server: each worker gets a part of them. The supervisor serves nothing: it forks the workers,
reports readiness to all of them at once, restarts a worker that exits or hangs, and forwards
messages between workers and the signal to stop. If the supervisor is killed, its workers stop.
Forked workers share the memory of imported modules; start no thread and no event loop before the
fork. Knows no store and no HTTP.

The states of a worker, as the supervisor sees them:

    state       what happens                                       next state
    starting    the worker sends READY: `_on_ready`                waiting
    waiting     every worker is ready: each gets GO                serving
    either      it exits: `WorkerFailed`                           the supervisor kills the others
    serving     it exits                                           exited
                `_stop` sends SIGTERM                              stopping
    all three   it hangs: `_end_if_it_hangs`                       the same, by SIGKILL
    exited      RESTART_SECONDS have passed since its start        starting
    stopping    it exits                                           exited, for good
                `_kill_time`, or a second signal to stop           stopping, by SIGKILL

`pid` is 0 in exited, `ready` is true in waiting and serving. The supervisor has two states of its
own, which it never leaves: `_all_ready`, in which a worker that starts again waits for no other and
an exit is not a failure, and `_stopping`, in which none starts again.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import selectors
import signal
import socket
import time
from collections.abc import Callable, Iterator

from msgspec import Struct

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.output import STANDARD_ERROR, STANDARD_OUTPUT
from kapiserver.apiserver.serving.process.signals import has_terminal
from kapiserver.apiserver.serving.process.silence import SILENT_SECONDS, Silence
from kapiserver.apiserver.serving.process.systemd import ServiceManager
from kapiserver.apiserver.serving.process.worker_channel import (
    ASK,
    GO,
    READY,
    SEGMENT,
    WorkerChannel,
    WorkerFailed,
)

RESTART_SECONDS = 1.0
"""The shortest time between two starts of the same worker."""
STOP_SECONDS = 20.0
"""A worker that has not stopped this long after the longest shutdown is killed."""
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
_FORWARDED_SIGNALS = (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_SIGNALS = (*_STOP_SIGNALS, *_FORWARDED_SIGNALS)

_log = logging.getLogger(__name__)


WorkerMain = Callable[[Config, WorkerChannel], None]
"""Serves until SIGTERM; runs in a process of its own."""


class _Worker(Struct):
    """The supervisor's record of a worker; `pid` is 0 until its process is started again.

    heard_at    when its last message came, or its process was started
    hangs       whether it has been silent for too long
    """

    number: int
    pid: int = 0
    connection: socket.socket | None = None
    ready: bool = False
    started: float = 0.0
    heard_at: float = 0.0
    hangs: bool = False


def supervise(
    config: Config,
    work: WorkerMain,
    service: ServiceManager,
    *,
    has_sockets: bool,
    silent_seconds: float = SILENT_SECONDS,
) -> int:
    """Serve with `workers` processes until a signal to stop; return the exit code.

    service         gets the reports of all workers
    has_sockets     whether the workers serve sockets that listen already as secure port
    silent_seconds  a worker that is silent for longer hangs

    Raises OSError for a port in use, WorkerFailed if a worker exits before all are ready.
    """
    with contextlib.ExitStack() as stack:
        serving = config.serving
        config = config.replace(
            secure_port=serving.secure_port
            if has_sockets
            else stack.enter_context(
                _reserved(serving.bind_address, serving.secure_port, serving.permit_port_sharing)
            ),
            insecure_port=stack.enter_context(
                _reserved("127.0.0.1", serving.insecure_port, serving.permit_port_sharing)
            ),
        )
        return _Supervisor(config, work, service, Silence(silent_seconds)).run()


class _Supervisor:
    def __init__(
        self, config: Config, work: WorkerMain, service: ServiceManager, silence: Silence
    ) -> None:
        self._config = config
        self._work = work
        self._service = service
        self._silence = silence
        self._workers = [_Worker(number) for number in range(config.serving.workers)]
        self._selector = selectors.DefaultSelector()
        self._all_ready = False
        self._kill_time = 0.0
        self._had_terminal = has_terminal()

    def run(self) -> int:
        with self._signal_wakeups():
            for worker in self._workers:
                self._start(worker)
            try:
                while not self._stopping or any(worker.pid for worker in self._workers):
                    self._poll()
            finally:
                for worker in self._workers:
                    if worker.pid:
                        os.kill(worker.pid, signal.SIGKILL)
                        os.waitpid(worker.pid, 0)
        return 0

    @property
    def _stopping(self) -> bool:
        return self._kill_time > 0

    @contextlib.contextmanager
    def _signal_wakeups(self) -> Iterator[None]:
        """Make signals wake the selector, as bytes in a socket."""
        reader, writer = socket.socketpair()
        with reader, writer, self._selector:
            reader.setblocking(False)
            writer.setblocking(False)
            self._selector.register(reader, selectors.EVENT_READ)
            previous = signal.set_wakeup_fd(writer.fileno())
            numbers = (*_SIGNALS, signal.SIGCHLD)
            handlers = [signal.signal(number, lambda *_: None) for number in numbers]
            self._signal_reader = reader
            try:
                yield
            finally:
                signal.set_wakeup_fd(previous)
                for number, handler in zip(numbers, handlers, strict=True):
                    signal.signal(number, handler)

    def _poll(self) -> None:
        """Wait shortly for signals and messages of workers, and handle them."""
        for key, _ in self._selector.select(RESTART_SECONDS / 2):
            if key.data is None:
                for number in self._signal_reader.recv(4096):
                    self._on_signal(number)
            else:
                self._receive(key.data)
        self._silence.look(time.monotonic())
        for worker in self._workers:
            self._check_process(worker)
        self._service.report_life_if_due()

    def _receive(self, worker: _Worker) -> None:
        """Handle a message of a worker."""
        assert worker.connection is not None
        try:
            message, descriptors, _, _ = socket.recv_fds(worker.connection, 1, 1)
            if not message:
                raise ConnectionResetError
        except OSError:  # the worker has exited; `_check_process` reaps it
            self._selector.unregister(worker.connection)
            return
        worker.heard_at = time.monotonic()
        if message == READY:
            self._on_ready(worker)
        elif message == ASK:
            _send(self._workers[0], ASK)
        for descriptor in descriptors:
            for other in self._workers:
                if other is not worker:
                    _send(other, SEGMENT, descriptor)
            os.close(descriptor)

    def _on_ready(self, worker: _Worker) -> None:
        """Mark a worker ready; when all are, release those that wait."""
        worker.ready = True
        if self._all_ready:  # it was started again; the others serve already
            _send(worker, GO)
        elif all(worker.ready for worker in self._workers):
            self._all_ready = True
            self._service.ready(f"serving with {len(self._workers)} workers")
            for other in self._workers:
                _send(other, GO)

    def _check_process(self, worker: _Worker) -> None:
        """Reap a worker that has exited, and start it again when that is due."""
        now = time.monotonic()
        if worker.pid:
            # A signal goes to a process that is not reaped yet, so that its pid is not another's.
            pid, status = os.waitpid(worker.pid, os.WNOHANG)
            if pid:
                self._on_exit(worker, os.waitstatus_to_exitcode(status))
            elif self._stopping:
                if now > self._kill_time:
                    os.kill(worker.pid, signal.SIGKILL)
            else:
                self._end_if_it_hangs(worker)
        if not worker.pid and not self._stopping and now >= worker.started + RESTART_SECONDS:
            self._start(worker)

    def _end_if_it_hangs(self, worker: _Worker) -> None:
        """Let a worker that hangs write its stacks, and kill it at the next look."""
        if not self._silence.is_too_long(worker.heard_at):
            worker.hangs = False
        elif worker.hangs:
            os.kill(worker.pid, signal.SIGKILL)
        else:
            worker.hangs = True
            _log.error(
                "worker %d hangs: it was silent for %g s", worker.number, self._silence.limit
            )
            os.kill(worker.pid, signal.SIGUSR1)

    def _on_exit(self, worker: _Worker, code: int) -> None:
        if worker.connection is not None:
            with contextlib.suppress(KeyError):
                self._selector.unregister(worker.connection)
            worker.connection.close()
        worker.pid, worker.connection, worker.ready, worker.hangs = 0, None, False, False
        # First whether the server stops: a worker that SIGTERM ended before it was ready is no
        # failure.
        if self._stopping:
            return
        if not self._all_ready:
            raise WorkerFailed(f"worker {worker.number} exited before it was ready")
        if not code:  # an administrator has sent SIGTERM, to this worker only
            _log.info("worker %d has stopped, starting it again", worker.number)
            return
        reason = f"exit code {code}" if code >= 0 else f"signal {-code}"
        _log.error("worker %d exited with %s, restarting it", worker.number, reason)

    def _on_signal(self, number: int) -> None:
        """Apply a signal to all workers; see `serving/signals.py`."""
        terminal_was_closed = self._had_terminal and not has_terminal()
        if number == signal.SIGQUIT:
            self._send(signal.SIGUSR1)  # before the stop: SIGUSR1 writes the stacks
        if number in _STOP_SIGNALS or (number == signal.SIGHUP and terminal_was_closed):
            self._stop()
        elif number == signal.SIGHUP:
            self._service.reload(functools.partial(self._send, number))
        elif number in _FORWARDED_SIGNALS:
            self._send(number)

    def _send(self, number: int) -> None:
        for worker in self._workers:
            if worker.pid:
                os.kill(worker.pid, number)

    def _stop(self) -> None:
        """Stop all workers: with SIGTERM the first time, with SIGKILL if called again."""
        # `_kill_time` makes `_stopping` true, so that the signal is chosen first.
        number = signal.SIGKILL if self._stopping else signal.SIGTERM
        if not self._stopping:
            self._service.stopping(self._config)
        longest = self._config.shutdown.longest(self._config.limits.request_timeout)
        self._kill_time = time.monotonic() + longest + STOP_SECONDS
        self._send(number)
        for worker in self._workers:
            if worker.connection is not None and not self._all_ready:
                worker.connection.shutdown(socket.SHUT_WR)  # ends its `wait_all_ready`

    def _start(self, worker: _Worker) -> None:
        parent_end, child_end = socket.socketpair()
        parent_end.setblocking(False)  # a worker may be too busy to read messages
        worker.started = worker.heard_at = time.monotonic()
        STANDARD_ERROR.close()  # ends its thread: none may run during the fork
        # Block signals between the fork and the worker's own handlers: those of the supervisor do
        # nothing but wake its selector.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        pid = os.fork()
        if not pid:
            parent_end.close()
            prints_greeting = worker.number == 0 and not self._all_ready
            channel = WorkerChannel(
                child_end, prints_greeting=prints_greeting, is_first_worker=worker.number == 0
            )
            self._run_worker(worker.number, channel)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        child_end.close()
        worker.pid, worker.connection = pid, parent_end
        self._selector.register(parent_end, selectors.EVENT_READ, worker)

    def _run_worker(self, number: int, channel: WorkerChannel) -> None:
        """Run the worker in this forked process; never returns."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)  # else a signal to the worker would wake the supervisor
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            # Ctrl-C in a terminal reaches every process; workers wait for the supervisor's SIGTERM.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            self._selector.close()
            for worker in self._workers:  # else these copies stay open when the supervisor exits
                if worker.connection is not None:
                    worker.connection.close()
            # Last, when a blocked SIGTERM can end this process without harm.
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            self._work(with_part_of_limits(self._config, number), channel)
            code = 0
        except Exception as error:
            STANDARD_ERROR.write(f"kapiserver: {error}\n")
            _log.debug("the worker failed", exc_info=True)
        finally:
            STANDARD_OUTPUT.close()
            STANDARD_ERROR.close()
            os._exit(code)


def _send(worker: _Worker, message: bytes, *descriptors: int) -> None:
    """Send a message to a worker that is ready, unless it is too busy to take it."""
    if worker.ready and worker.connection is not None:
        with contextlib.suppress(OSError):
            if descriptors:
                socket.send_fds(worker.connection, [message], descriptors)
            else:
                worker.connection.send(message)


def with_part_of_limits(config: Config, number: int) -> Config:
    """Return the settings of the worker with this number, from 0: its part of the requests that the
    server may have in flight. A limit below the number of workers lets each have one."""
    workers, limits = config.serving.workers, config.limits

    def part(limit: int) -> int:
        if limit <= 0:  # no limit
            return limit
        return max(1, limit // workers + (number < limit % workers))

    return config.replace(
        max_requests_inflight=part(limits.max_requests_inflight),
        max_mutating_requests_inflight=part(limits.max_mutating_requests_inflight),
    )


@contextlib.contextmanager
def _reserved(host: str, port: int | None, is_shared: bool) -> Iterator[int | None]:
    """Reserve a port for the workers, a free one for 0, and yield it. Raises OSError. Other servers
    may have the port, too, if it is shared."""
    if port is None:
        yield None
        return
    family, _, _, _, address = socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    if not is_shared:
        with socket.socket(family, socket.SOCK_STREAM) as exclusive:
            exclusive.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            exclusive.bind(address)  # fails if any process has the port, with SO_REUSEPORT, too
            address = exclusive.getsockname()
    with socket.socket(family, socket.SOCK_STREAM) as shared:
        shared.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        shared.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        shared.bind(address)
        yield shared.getsockname()[1]
