"""A running server: sockets opened, credentials made, drained at the end.

Knows what an App is and nothing of what it answers.
"""

from __future__ import annotations

import asyncio
import functools
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from kapiserver.apiserver.allocation.repair import Repair
from kapiserver.apiserver.authentication.user import ANONYMOUS, UNSECURED, User
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.filters.recovery import answer_error
from kapiserver.apiserver.serving.kubeconfig import write_kubeconfig
from kapiserver.apiserver.serving.listener import Listener
from kapiserver.apiserver.serving.tls import Credentials, credentials
from kapiserver.app import App, build_app
from kapiserver.controllers import start_controllers
from kapiserver.controllers.apiserver_endpoints import Place
from kapiserver.controllers.kubernetes_service import KubernetesService, reached_at
from kapiserver.storage.clock import Clock
from kapiserver.storage.compaction import Compaction

LOOPBACK = "127.0.0.1"
_EVERYWHERE = ("", "0.0.0.0", "::")
BACKLOG = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A server that answers.

    url             HTTPS where it is served, else plain HTTP
    insecure_url    plain HTTP, "" where it is off
    ca_file         signs the certificate of `url`; None without HTTPS
    kubeconfig      of an administrator, ready for kubectl; None without HTTPS
    credentials     certificates, as files; None without HTTPS
    """

    app: App
    url: str
    insecure_url: str = ""
    ca_file: Path | None = None
    kubeconfig: Path | None = None
    credentials: Credentials | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Endpoint:
    """One listening socket."""

    sockets: asyncio.Server
    listener: Listener

    @property
    def port(self) -> int:
        port: int = self.sockets.sockets[0].getsockname()[1]
        return port


Others: TypeAlias = Callable[[], Awaitable[None]]
"""Waits for those who are to be ready at the same time."""


async def _nobody() -> None:
    pass


@asynccontextmanager
async def serve(
    config: Config, *, clock: Clock | None = None, others: Others = _nobody
) -> AsyncIterator[Running]:
    """Run a server until the block ends, then drain it: /readyz fails, no new connections, watches
    end, writes in flight finish, all within `config.shutdown_timeout` seconds. It is ready when
    `others` returns.

    Raises what `build_app` does, NotOurs, and OSError for a port that is taken.
    """
    async with AsyncExitStack() as stack:
        folder = config.cert_dir or Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="kapiserver-"))
        )
        made = credentials(config, folder) if config.secure_port is not None else None
        ca_text = made.ca.read_text() if made is not None else ""
        app = await build_app(config, clock=clock)
        stack.push_async_callback(app.kv.close)
        compaction = Compaction(app.kv, app.server.clock, config.etcd_compaction_interval)
        compaction.start()
        stack.callback(compaction.stop)
        if app.encryption is not None:
            app.encryption.start()
            stack.callback(app.encryption.stop)
        endpoints: list[_Endpoint] = []
        stack.push_async_callback(_drain, app, endpoints)
        insecure_url = ""
        if config.insecure_port is not None:
            plain = await _plain(config, app)
            endpoints.append(plain)
            insecure_url = f"http://{LOOPBACK}:{plain.port}"
        await app.server.custom_resources.start()
        stack.callback(app.server.custom_resources.stop)
        controllers = await start_controllers(app.server, ca_text=ca_text)
        stack.push_async_callback(controllers.stop)
        await others()
        stack.push_async_callback(_start_repair(app).stop)
        app.server.health.started = True
        if made is None:
            port = endpoints[0].port if endpoints else 0
            stack.push_async_callback(_start_kubernetes_service(app, port).stop)
            yield Running(app=app, url=insecure_url, insecure_url=insecure_url)
            return
        secure = await _secure(config, app, made)
        endpoints.append(secure)
        stack.push_async_callback(_start_kubernetes_service(app, secure.port).stop)
        url = f"https://{_reached(config.bind_address)}:{secure.port}"
        kubeconfig = config.kubeconfig_out or folder / "kubeconfig"
        write_kubeconfig(kubeconfig, url=url, made=made)
        yield Running(
            app=app,
            url=url,
            insecure_url=insecure_url,
            ca_file=made.ca,
            kubeconfig=kubeconfig,
            credentials=made,
        )


def _start_kubernetes_service(app: App, port: int) -> KubernetesService:
    address = reached_at(app.server.config.bind_address)
    place = Place(port, address) if address and port else None
    service = KubernetesService(app.server, place, port)
    service.start()
    return service


def _start_repair(app: App) -> Repair:
    repair = Repair(app.server)
    repair.start()
    return repair


def _listener(app: App, user: User) -> Listener:
    return Listener(app.handle, functools.partial(answer_error, app.server), user=user)


async def _plain(config: Config, app: App) -> _Endpoint:
    listener = _listener(app, UNSECURED)
    sockets = await asyncio.get_running_loop().create_server(
        listener,
        LOOPBACK,
        config.insecure_port,
        backlog=BACKLOG,
        reuse_port=config.workers > 1 or None,
    )
    return _Endpoint(sockets=sockets, listener=listener)


async def _secure(config: Config, app: App, made: Credentials) -> _Endpoint:
    listener = _listener(app, ANONYMOUS)
    sockets = await asyncio.get_running_loop().create_server(
        listener,
        config.bind_address or None,
        config.secure_port or 0,
        ssl=made.server_context(),
        backlog=BACKLOG,
        reuse_port=config.workers > 1 or None,
    )
    return _Endpoint(sockets=sockets, listener=listener)


def _reached(bind_address: str) -> str:
    """The host that clients on this machine put into their URL."""
    host = LOOPBACK if bind_address in _EVERYWHERE else bind_address
    return f"[{host}]" if ":" in host else host


async def _drain(app: App, endpoints: list[_Endpoint]) -> None:
    app.server.health.draining = True
    app.server.stores.stop()
    for endpoint in endpoints:
        _accept_no_more(endpoint.sockets)
    for _ in range(3):  # what was accepted just now becomes a connection, and is drained too
        await asyncio.sleep(0)
    for endpoint in endpoints:
        endpoint.sockets.close()
    seconds = app.server.config.shutdown_timeout
    await asyncio.gather(*(endpoint.listener.drain(seconds) for endpoint in endpoints))


def _accept_no_more(sockets: asyncio.Server) -> None:
    """Leave those who come now to the system. asyncio forgets, open, a connection that it accepted
    and that is none yet when its server is closed."""
    loop = asyncio.get_running_loop()
    for one in sockets.sockets:
        with suppress(NotImplementedError):  # on Windows nothing is accepted in advance
            loop.remove_reader(one.fileno())
