"""A refused request leaves nothing in memory: its body is freed with the response.

Errors, their tracebacks and frames refer to each other and to the body. Without a collection such
a cycle stays, so a user without rights could fill the memory. The test needs a process of its own:
it turns the collector off, and counts the bytes that malloc has given out.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import ctypes
import gc
import http.client
import json
import platform
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from kapiserver.apiserver.serving.process import memory as process_memory
from tests.apiserver import refused_elsewhere
from tests.apiserver.admission.refused_by_admission import Admission
from tests.apiserver.conftest import Server
from tests.apiserver.customresources.customkit import CRDS, wait_for_condition
from tests.apiserver.endpoints import refused_requests
from tests.apiserver.endpoints.refused_requests import DEFINITION, JSON, MAPS, Refused

TEXT = "x" * 60_000
KEPT_BYTES = len(TEXT) // 2
"""A request that leaves more has left its body, or a part of it."""
ATTEMPT_SECONDS = (0.1, 0.1, 1.0)
"""Time for threads to free bodies, in each attempt. Requests keep a body if they do so each time:
first uses and other tasks keep memory, too."""
BATCH = 50
"""Requests between two counts, which walk the free memory."""
TURNS = 5
STATUSES = {400, 403, 404, 405, 406, 409, 413, 415, 422, 500}
TIMEOUT_SECONDS = 300


class _Usage(ctypes.Structure):
    """`struct mallinfo2` of malloc.h."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks",
                     "uordblks", "fordblks", "keepcost")
    ]  # fmt: skip


class _Client:
    """A connection that stays open, so that nothing is freed because it ends."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._connection: http.client.HTTPConnection | None = None

    def send(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> int:
        """Send a request and return the status; 0 if the server closes the connection first."""
        for _ in range(2):
            if self._connection is None:
                self._connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
            try:
                self._connection.request(method, path, body, headers)
                response = self._connection.getresponse()
                response.read()
            except (ConnectionError, http.client.HTTPException):
                self.close()
                continue
            if response.will_close:
                self.close()
            return response.status
        return 0

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class _Run:
    """Sends requests and finds those that leave their body."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._client = _Client(server.api.port)
        self._library = ctypes.CDLL(None)
        self._library.mallinfo2.restype = _Usage
        self.statuses: collections.Counter[int] = collections.Counter()
        self.keeping: list[str] = []

    def _used(self) -> int:
        usage = self._library.mallinfo2()
        return int(usage.uordblks + usage.hblkhd)

    def _settle(self) -> None:
        async def turns() -> None:
            for _ in range(TURNS):
                await asyncio.sleep(0)

        asyncio.run_coroutine_threadsafe(turns(), self._server.loop).result(60)

    def check(self, requests: Sequence[Refused]) -> None:
        """Send requests, and find those among them that leave their body each time."""
        bodies = [request.body(TEXT) for request in requests]
        for seconds in ATTEMPT_SECONDS:
            self._settle()
            before = self._used()
            for request, body in zip(requests, bodies, strict=True):
                self._send(request, body)
            if self._is_freed(before, seconds):
                return
        del bodies
        if len(requests) > 1:
            middle = len(requests) // 2
            self.check(requests[:middle])
            self.check(requests[middle:])
        else:
            (kept,) = requests
            self.keeping.append(f"{kept.method} {kept.path} {kept.type}: {kept.name}")

    def _send(self, request: Refused, body: bytes) -> None:
        headers = {"Accept": JSON, "Content-Type": request.type, **request.headers}
        self.statuses[self._client.send(request.method, request.path, body, headers)] += 1

    def _is_freed(self, before: int, seconds: float) -> bool:
        end = time.monotonic() + seconds
        while True:
            self._settle()
            if self._used() < before + KEPT_BYTES:
                return True
            if time.monotonic() > end:
                return False

    def check_incomplete(self) -> None:
        """Send a body without its end, and close the connection."""
        for head in ("Content-Length: 100000", "Transfer-Encoding: chunked"):
            for seconds in ATTEMPT_SECONDS:
                self._settle()
                before = self._used()
                with socket.create_connection(("127.0.0.1", self._server.api.port)) as client:
                    start = (
                        f"POST {MAPS} HTTP/1.1\r\nHost: a\r\nContent-Type: {JSON}\r\n{head}\r\n\r\n"
                    )
                    client.sendall(f"{start}{len(TEXT):x}\r\n{TEXT}".encode())
                if self._is_freed(before, seconds):
                    break
            else:
                self.keeping.append(f"incomplete body, {head}")


def _prepare(server: Server) -> None:
    client = _Client(server.api.port)
    for method, path, body, type_ in refused_requests.before():
        status = client.send(method, path, json.dumps(body).encode(), {"Content-Type": type_})
        assert status in (200, 201), (method, path, status)
        if path == CRDS:
            wait_for_condition(server.api, DEFINITION["metadata"]["name"], "Established", "True")
    client.close()


@contextlib.contextmanager
def _admission(server: Server) -> Iterator[Admission]:
    with tempfile.TemporaryDirectory() as folder:
        admission = Admission(server.api, Path(folder))
        try:
            yield admission
        finally:
            admission.end()


def main(only: str = "") -> None:
    process_memory.use_one_heap()  # malloc counts the bytes of its first heap only
    server = Server()
    _prepare(server)
    run = _Run(server)
    with _admission(server) as admission:
        requests = [
            request
            for requests in (
                refused_requests.requests(), refused_elsewhere.requests(), admission.requests()
            )
            for request in requests
            if only in f"{request.method} {request.path} {request.type}: {request.name}"
        ]  # fmt: skip
        gc.collect()
        gc.disable()
        for start in range(0, len(requests), BATCH):
            run.check(requests[start : start + BATCH])
        run.check_incomplete()
    server.end()
    print(json.dumps({"statuses": run.statuses, "keeping": run.keeping}))


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator")
@pytest.mark.slow  # test_cycles.py finds the cycles of usual requests in `make test`
def test_refused_bodies_are_freed() -> None:
    """No error path keeps a body: each media type, each verb, malformed and invalid values,
    conflicts, users without rights, reviews, options, definitions, webhooks and policies."""
    command = [sys.executable, "-m", "tests.apiserver.endpoints.test_refused_bodies"]
    result = subprocess.run(command, check=True, capture_output=True, timeout=TIMEOUT_SECONDS)
    report = json.loads(result.stdout.splitlines()[-1])
    assert report["keeping"] == []
    assert {int(status) for status in report["statuses"]} >= STATUSES


if __name__ == "__main__":
    main(*sys.argv[1:])
