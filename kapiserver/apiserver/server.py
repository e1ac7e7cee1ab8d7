"""A running server: sockets opened, credentials made, drained at the end.

Knows what an App is and nothing of what it answers.
"""

from __future__ import annotations

import asyncio
import functools
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from kapiserver.apiserver.app import App, build_app
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.filters.recovery import answer_error
from kapiserver.apiserver.listener import Listener
from kapiserver.storage.clock import Clock

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A server that answers.

    url             HTTPS where it is served, else plain HTTP
    insecure_url    plain HTTP, "" where it is off
    ca_file         signs the certificate of `url`; None without HTTPS
    kubeconfig      of an administrator, ready for kubectl
    """

    app: App
    url: str
    insecure_url: str = ""
    ca_file: Path | None = None
    kubeconfig: Path | None = None


@asynccontextmanager
async def serve(config: Config, *, clock: Clock | None = None) -> AsyncIterator[Running]:
    """Run a server until the block ends, then drain it."""
    app = await build_app(config, clock=clock)
    listener = Listener(app.handle, functools.partial(answer_error, app.server))
    loop = asyncio.get_running_loop()
    endpoint = await loop.create_server(listener, LOOPBACK, config.insecure_port or 0)
    port = _port(endpoint.sockets[0])
    url = f"http://{LOOPBACK}:{port}"
    try:
        yield Running(app=app, url=url, insecure_url=url)
    finally:
        endpoint.close()
        listener.end_streams()
        await listener.shutdown(config.shutdown_timeout)
        await app.kv.close()


def _port(opened: socket.socket) -> int:
    port: int = opened.getsockname()[1]
    return port
