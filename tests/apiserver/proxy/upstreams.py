"""Servers that a proxy passes requests on to, each in threads of its own.

kube-apiserver connects to no loopback address, so they listen on an address of the machine.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

import pytest


def machine_address() -> str:
    """Return an address of this machine that is not of the loopback interface."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            pytest.skip("this machine has no address but that of the loopback interface")
        return str(probe.getsockname()[0])


@dataclass
class Exchange:
    """One connection, and the request that was read from it."""

    socket: socket.socket
    reader: BinaryIO
    method: str = ""
    target: str = ""
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""

    def header(self, name: str) -> str | None:
        """Return the only header of a name, or None."""
        values = [value for each, value in self.headers if each.lower() == name.lower()]
        assert len(values) <= 1, values
        return values[0] if values else None

    def send(self, data: bytes) -> None:
        """Send bytes to the proxy."""
        self.socket.sendall(data)

    def receive(self, size: int) -> bytes:
        """Return so many bytes that the proxy sends, or fewer at the end."""
        return self.reader.read(size)

    def read_head(self) -> bool:
        """Read the head of a request; return whether there was one."""
        line = self.reader.readline().decode(errors="replace").split(" ")
        if not line[-1].startswith("HTTP/1."):
            self.send(reply(status="400 Bad Request"))
            return False
        self.method, self.target = line[0], line[1]
        while (line := self.reader.readline().rstrip(b"\r\n").decode()) != "":
            name, _, value = line.partition(": ")
            self.headers.append((name, value))
        return True

    def read_body(self) -> None:
        """Read the body."""
        if self.header("Transfer-Encoding") == "chunked":
            while size := int(self.reader.readline(), 16):
                self.body += self.reader.read(size)
                self.reader.readline()
            self.reader.readline()
        else:
            self.body = self.reader.read(int(self.header("Content-Length") or 0))


def reply(body: bytes = b"", *headers: str, status: str = "200 OK") -> bytes:
    """Return a response."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


class Upstream:
    """A server that calls `answer` with each request; `requests` has those that were read."""

    def __init__(self, host: str, tls: ssl.SSLContext | None = None) -> None:
        self.host = host
        self.requests: queue.Queue[Exchange] = queue.Queue()
        self.answer: Callable[[Exchange], None] = lambda exchange: exchange.send(reply(b"hello"))
        self.reads_body = True
        self._tls = tls
        self._socket = socket.create_server((host, 0))
        self.port = self._socket.getsockname()[1]
        self._open: set[socket.socket] = set()
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def respond(self, response: bytes) -> None:
        """Answer each request with a response."""
        self.answer = lambda exchange: exchange.send(response)

    def request(self) -> Exchange:
        """Return the next request that was read."""
        return self.requests.get(timeout=60)

    def close(self) -> None:
        """Close all connections and stop. Idempotent."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for each in tuple(self._open):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        self._thread.join(60)

    def _accept(self) -> None:
        while True:
            try:
                accepted, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(accepted,), daemon=True).start()

    def _serve(self, accepted: socket.socket) -> None:
        with contextlib.suppress(OSError), accepted:
            if self._tls is not None:
                accepted = self._tls.wrap_socket(accepted, server_side=True)
            self._open.add(accepted)
            with accepted, accepted.makefile("rb") as reader:
                exchange = Exchange(accepted, reader)
                if exchange.read_head():
                    if self.reads_body:
                        exchange.read_body()
                    self.requests.put(exchange)
                    self.answer(exchange)
            self._open.discard(accepted)


@contextlib.contextmanager
def running_upstream(tls: ssl.SSLContext | None = None) -> Iterator[Upstream]:
    """Run a server until the block ends."""
    upstream = Upstream(machine_address(), tls)
    try:
        yield upstream
    finally:
        upstream.close()
