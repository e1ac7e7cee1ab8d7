"""Serves /metrics, the exposition of the server's metrics in the Prometheus text format, and
/metrics/slis, those of its health checks.

kube-apiserver serves no other format either: not OpenMetrics. This is the only module that knows
prometheus-client, which reads the metrics of the process; it is loaded at the first scrape.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable

from prometheus_client import GCCollector, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import CollectorRegistry

from kapiserver.apiserver.context import Server
from kapiserver.apiserver.errors import MethodNotAllowed
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse, Response, page_not_found
from kapiserver.apiserver.serving.metrics.health_families import health_families
from kapiserver.apiserver.serving.metrics.server_families import ServerFamilies
from kapiserver.apiserver.serving.metrics.text import MEDIA_TYPE, Family, text_of
from kapiserver.storage.errors import StorageError

STORAGE_SECONDS = 1.0
"""How long a scrape waits for the size of the store."""


async def serve_metrics(server: Server, request: Request) -> AnyResponse:
    """Return the response to a scrape of the server, or of a page below. Raises
    MethodNotAllowed."""
    if request.path == "/metrics":
        _check_method(request)
        return metrics_response(ServerFamilies(server, await _storage_size(server)))
    if request.path == "/metrics/slis":
        _check_method(request)
        return Response(media_type=MEDIA_TYPE, body=text_of(health_families(server.health)))
    if server.metric_pages is None:
        return page_not_found()
    _check_method(request)
    text = await server.metric_pages(server, request.path)
    return page_not_found() if text is None else Response(media_type=MEDIA_TYPE, body=text)


async def _storage_size(server: Server) -> int | None:
    """Return the size of the store; None if it does not tell it in time."""
    try:
        async with asyncio.timeout(STORAGE_SECONDS):
            return await server.stores.kv.size()
    except (StorageError, TimeoutError):
        return None


def _check_method(request: Request) -> None:
    if request.method != "GET":
        raise MethodNotAllowed


def metrics_response(families: Iterable[Family]) -> Response:
    """Return the metrics of the process, and families."""
    return Response(media_type=MEDIA_TYPE, body=_text(families))


async def _text(families: Iterable[Family]) -> AsyncIterator[bytes]:
    registry = CollectorRegistry()
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=registry)
    yield generate_latest(registry)
    async for piece in text_of(families):
        yield piece
