"""The API as an aiohttp application, for products that serve it beside routes of their own.

    from aiohttp import web
    from kapiserver.aiohttp import application
    from kapiserver.apiserver.config import Config

    product = web.Application()
    product.add_subapp("/kubernetes", application(Config.of(storage="sqlite:store.db")))
    web.run_app(product, handler_cancellation=True)

Connections, TLS and limits are those of the product's server; authentication, authorization and
everything behind them are kapiserver's.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from aiohttp import web

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.serving.aiohttp.exchange import AiohttpExchange
from kapiserver.apiserver.serving.exchange import Dispatcher
from kapiserver.apiserver.user import ANONYMOUS
from kapiserver.app import RunningServer, serve
from kapiserver.host import Host
from kapiserver.parts import DEFAULT_PARTS, Parts

SERVER = web.AppKey("SERVER", RunningServer)
"""The running server of an application, after its start."""
_DISPATCHER = web.AppKey("_DISPATCHER", Dispatcher)
_PATH = "/{path}"


def application(
    config: Config, parts: Parts = DEFAULT_PARTS, *, host: Host | None = None
) -> web.Application:
    """Return an application that serves the whole API. The cluster starts and ends with it.

    host    the host of several applications that run on one event loop; None: a host of its own

    The ports of `config` are not opened. Run the application with `handler_cancellation=True`, so
    that a watch ends as soon as its client disconnects; otherwise it ends at the next event.

    Raises the errors of `kapiserver.app.serve` when it starts.
    """
    config = config.replace(secure_port=None, insecure_port=None)

    async def run(api: web.Application) -> AsyncIterator[None]:
        async with serve(config, parts, host=host) as running:
            api[SERVER] = running
            api[_DISPATCHER] = Dispatcher(running.cluster.handle, user=ANONYMOUS)
            yield

    api = web.Application(handler_args={"auto_decompress": False})
    api.router.add_route("*", "/{path:.*}", _respond)
    api.cleanup_ctx.append(run)
    api.on_shutdown.append(_end_streams)
    return api


async def _respond(request: web.Request) -> web.StreamResponse:
    resource = request.match_info.route.resource
    prefix = resource.canonical.removesuffix(_PATH) if resource is not None else ""
    exchange = AiohttpExchange(request, request.raw_path.removeprefix(prefix), None)
    return await exchange.run(request.config_dict[_DISPATCHER])


async def _end_streams(api: web.Application) -> None:
    """Fail readiness, and end all watches, so that the connections can be closed."""
    api[SERVER].cluster.server.health.drain()
    await api[_DISPATCHER].end_streams(0)
