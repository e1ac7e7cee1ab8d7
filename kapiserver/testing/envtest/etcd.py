"""The program etcd of `kapiserver envtest`: answers /health, and names its data directory.

`kube_apiserver.py` asks for that directory and stores objects there, so they outlive a restart of
the API server.
Imports only the standard library, and little of that, because each start of a test environment
waits for this program. Mirrors what the package controlplane of controller-runtime asks of etcd.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from contextlib import suppress
from urllib.parse import urlsplit

MAX_BYTES = 8192
"""The maximum size of the head of a request, and of a response."""
IDLE_SECONDS = 5.0
"""How long to wait for bytes on a connection."""
PARENT_SECONDS = 1.0
"""How often to look whether the parent process, which may have been killed, still runs."""
DEFAULT_PORT = 2379
DATA_DIR_PATH = "/kapiserver/data-dir"
"""Path whose response is the value of --data-dir."""
HELP = """\
etcd of kapiserver envtest: answers /health and holds a directory for kube-apiserver.

  --advertise-client-urls string   ignored
  --data-dir string                directory of the objects
  --listen-client-urls string      URL to serve /health on
  --listen-peer-urls string        ignored
  --unsafe-no-fsync                ignored: the objects are never flushed to disk
"""


def main(arguments: list[str]) -> int:
    """Serve until SIGTERM or SIGINT, or until the parent process ends."""
    if "--help" in arguments or "-h" in arguments:
        sys.stdout.write(HELP)
        return 0
    flags = _flags(arguments)
    address = _address(flags.get("listen-client-urls", "").partition(",")[0])
    bodies = {
        "/health": '{"health":"true","reason":""}',
        DATA_DIR_PATH: flags.get("data-dir", ""),
    }
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    parent = os.getppid()
    with socket.create_server(address) as listener:
        listener.settimeout(PARENT_SECONDS)
        while os.getppid() == parent:
            with suppress(TimeoutError):
                connection, _ = listener.accept()
                with connection:
                    _respond(connection, bodies)
    return 0


def ask_data_dir(url: str) -> str:
    """Return the data directory of the program etcd that serves a URL; "" for a real etcd."""
    try:
        with socket.create_connection(_address(url), IDLE_SECONDS) as connection:
            connection.sendall(f"GET {DATA_DIR_PATH} HTTP/1.0\r\n\r\n".encode())
            with connection.makefile("rb") as response:
                head, _, body = response.read(MAX_BYTES).partition(b"\r\n\r\n")
    except OSError:
        return ""
    return body.decode() if b" 200 " in head.partition(b"\r\n")[0] else ""


def _flags(arguments: list[str]) -> dict[str, str]:
    pairs = (text.lstrip("-").partition("=") for text in arguments if text.startswith("-"))
    return {name: value for name, _, value in pairs}


def _address(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return parts.hostname or "127.0.0.1", parts.port or DEFAULT_PORT


def _respond(connection: socket.socket, bodies: dict[str, str]) -> None:
    """Read the head of a request and respond; give up on a client that is slow or goes away."""
    connection.settimeout(IDLE_SECONDS)
    head = b""
    try:
        while b"\r\n\r\n" not in head and len(head) < MAX_BYTES:
            data = connection.recv(MAX_BYTES)
            if not data:
                return
            head += data
        _, path, _ = head.decode("latin-1").split(" ", 2)
        connection.sendall(_response(bodies.get(path)))
    except (OSError, ValueError):
        return


def _response(body: str | None) -> bytes:
    status = "200 OK" if body is not None else "404 Not Found"
    data = (body or "").encode()
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(data)}\r\nConnection: close\r\n\r\n"
    return head.encode() + data


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
