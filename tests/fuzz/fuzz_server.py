"""Random requests against a server that runs, in all encodings and by all verbs.

    make fuzz-server
    python -m tests.fuzz.fuzz_server --seed 7 --seconds 60
    python -m tests.fuzz.fuzz_server --send .data/fuzz/request-7-1234

A fault is a response of 500, a turn of the event loop of more than 50 ms of CPU, a trace in the
log, or a connection that the server closes without a response. Each fault is printed, and its
request is written to a file that `--send` sends again, after the objects that every run begins
with. Long turns of these first requests do not count: they load modules. The exit status is 1 after
a fault. A seed repeats a run.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import itertools
import math
import random
import socket
import ssl
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.holds import MAX_TURN_MS, blocked_turns
from tests.bench.servers import TOKEN, Store
from tests.fuzz.requests import RUNTIME_CONFIG, RawRequest, Requests

EXPECTED = (
    b"resourceVersion should not be set on objects to be created",
    b"conversion webhook for",
)
"""Messages with which kube-apiserver answers 500, too."""
_TRACE = b"Traceback (most recent call last)"
_RECEIVE_SECONDS = 15
_MALFORMED_SECONDS = 0.3
"""A server waits for the rest of a request whose length is wrong."""
_NO_RESPONSE = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """A response; the status is 0 if the server closed the connection without one."""

    status: int
    body: bytes = b""


@dataclass(slots=True)
class Client:
    """Sends raw requests, over one connection while the server keeps it open."""

    connect: Callable[[], socket.socket]
    _socket: socket.socket | None = None

    def send(self, request: RawRequest) -> Answer:
        """Send a request and return its response. The stream of a watch is not read."""
        if self._socket is not None:
            with contextlib.suppress(OSError, http.client.HTTPException):
                return self._exchange(self._socket, request)
            self.close()  # the server may have closed an idle connection
        self._socket = self.connect()
        try:
            return self._exchange(self._socket, request)
        except (OSError, http.client.HTTPException):
            self.close()
            return Answer(_NO_RESPONSE)

    def _exchange(self, connection: socket.socket, request: RawRequest) -> Answer:
        connection.settimeout(_MALFORMED_SECONDS if request.is_malformed else _RECEIVE_SECONDS)
        connection.sendall(request.data)
        response = http.client.HTTPResponse(connection, method=request.method)
        try:
            response.begin()
            is_stream = response.chunked and b"watch" in request.data.partition(b"\r\n")[0]
            body = b"" if is_stream else response.read()
            if is_stream or response.will_close or request.is_malformed:
                self.close()
            return Answer(response.status, body)
        finally:
            response.close()

    def close(self) -> None:
        """Close the connection."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def fault_of(request: RawRequest, answer: Answer) -> str:
    """Return what is wrong with a response, or ""."""
    if answer.status == 500 and not any(text in answer.body for text in EXPECTED):
        return "500"
    if answer.status == _NO_RESPONSE and not request.is_malformed:
        return "no response"
    return ""


@dataclass(slots=True)
class Run:
    """A server, the client, and what was found.

    log     the file of the server's log
    turns   returns the turns of the server's event loop since the last call
    """

    client: Client
    log: Path
    turns: Callable[[], dict]
    folder: Path
    statuses: Counter[int] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    _read: int = 0

    def send(self, request: RawRequest, name: str, *, most_ms: float = MAX_TURN_MS) -> None:
        """Send a request, and print what is wrong with the response, the log and the turns."""
        answer = self.client.send(request)
        self.statuses[answer.status] += 1
        figures = self.turns()
        fault = fault_of(request, answer)
        if fault:
            self._report(fault, request, name, answer.body[:500].decode("utf-8", "replace"))
        trace = self._new_log()
        if _TRACE in trace:
            self._report("trace", request, name, trace.decode("utf-8", "replace")[-4000:])
        longest = max(figures["cpu ms"], default=0.0)
        if longest > most_ms:
            stacks = "\n".join(map(str, figures["stacks"]))
            collected = f"collections of {figures['gc ms']} ms"
            self._report("long turn", request, name, f"{longest} ms, {collected}\n{stacks}")

    def _new_log(self) -> bytes:
        with self.log.open("rb") as log:
            log.seek(self._read)
            new = log.read()
        self._read += len(new)
        return new

    def _report(self, fault: str, request: RawRequest, name: str, detail: str) -> None:
        self.faults[fault] += 1
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"request-{name}"
        path.write_bytes(request.data)
        print(f"--- {fault}: {path}\n{request.data[:1500]!r}\n{detail}", flush=True)


@contextlib.contextmanager
def started(folder: Path) -> Iterator[Run]:
    """Run a server in a process of its own."""
    with tempfile.TemporaryDirectory() as scratch:
        log = Path(scratch, "log")
        store = Store(flags=["--runtime-config", RUNTIME_CONFIG])
        with (
            log.open("wb") as stderr,
            blocked_turns(Path(scratch), store, MAX_TURN_MS / 1000, stderr=stderr) as served,
        ):
            target, turns = served
            context = ssl.create_default_context(cafile=target.ca_file)

            def connect() -> socket.socket:
                plain = socket.create_connection((target.host, target.port), _RECEIVE_SECONDS)
                return context.wrap_socket(plain, server_hostname=target.host)

            client = Client(connect)
            try:
                yield Run(client, log, turns, folder)
            finally:
                client.close()


def run(options: argparse.Namespace) -> Counter[str]:
    """Send the requests of a seed; return the number of faults by kind."""
    requests = Requests(options.seed, TOKEN)
    with started(Path(".data/fuzz")) as fuzz:
        for number, request in enumerate(requests.preparation()):
            fuzz.send(request, f"{options.seed}-preparation-{number}", most_ms=math.inf)
        ends = time.monotonic() + options.seconds
        sent: Iterable[RawRequest] = requests
        if options.send:
            sent = [RawRequest(Path(options.send).read_bytes())]
        for number, request in enumerate(itertools.islice(sent, options.requests)):
            if time.monotonic() > ends:
                break
            fuzz.send(request, f"{options.seed}-{number}")
        statuses = ", ".join(
            f"{status}: {count}" for status, count in sorted(fuzz.statuses.items())
        )
        print(f"seed {options.seed}, {fuzz.statuses.total()} requests; {statuses}")
        print(f"faults: {dict(fuzz.faults) or 'none'}")
        return fuzz.faults


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--requests", type=int, default=sys.maxsize)
    parser.add_argument("--send", default="", help="send the request in this file only")
    sys.exit(bool(run(parser.parse_args())))


if __name__ == "__main__":
    main()
