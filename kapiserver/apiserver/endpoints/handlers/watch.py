"""Watch of a collection. Mirrors the watch half of ListResource of k8s.io/apiserver."""

from __future__ import annotations

import random

from kapiserver.api.types import Tree
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.endpoints.negotiation import (
    ResponseFormat,
    negotiate_list,
    stream_format,
)
from kapiserver.apiserver.endpoints.object_responses import current_time, table_builder
from kapiserver.apiserver.endpoints.options import read_options, selector_cost, watch_query
from kapiserver.apiserver.endpoints.watch_frames import MetadataFramer, TableFramer
from kapiserver.apiserver.errors import status_of
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse, StreamResponse
from kapiserver.apiserver.status import status
from kapiserver.apiserver.target import Target
from kapiserver.storage.cache.entry import encoding_of
from kapiserver.storage.cache.query import Framer

_random = random.SystemRandom()
"""Not the generator of the module, whose state belongs to the program that runs the server."""


async def watch(server: Server, request: Request, target: Target) -> AnyResponse:
    """Return a stream of events."""
    list_format = negotiate_list(server, request, target)
    options = read_options(server, request, "ListOptions")
    response_format = stream_format(server, list_format)
    framer = watch_framer(server, request, response_format, target)
    run = server.offloader.run
    query = await run(selector_cost(options), watch_query, request.info, target, options)
    sink = request.open_sink()
    with request.trace.detail("cacher.Watch"):
        subscription = await target.store.watch(query, framer, sink)
    request.on_complete(lambda _: subscription.cancel())
    return StreamResponse(
        media_type=response_format.media.stream_type,
        sink=sink,
        started=subscription.task,
        timeout=_stream_timeout(server, options),
        on_timeout=lambda: target.store.write_last_bookmark(subscription),
    )


def _stream_timeout(server: Server, options: Tree) -> float:
    """Return `timeoutSeconds`, or a random time of one to two times `min_request_timeout`, so that
    watches that started together do not end together."""
    timeout: int | None = options.get("timeoutSeconds")
    return timeout if timeout else server.config.limits.min_request_timeout * (1 + _random.random())


def watch_framer(
    server: Server, request: Request, response_format: ResponseFormat, target: Target
) -> Framer:
    """Return the framer of the events of a watch."""

    def status_tree(error: Exception) -> Tree:
        tree = status_of(error, request.info)
        return tree or status(code=500, reason="InternalError", message="watch ended")

    plain = target.store.framer(
        encoding_of(target.version, response_format.media.extension), status_tree
    )
    if response_format.convert is None:
        return plain
    if response_format.is_table:
        table = table_builder(server, request, response_format, target)
        hub = target.kind_info.hub
        return TableFramer(
            server.codecs,
            response_format.media,
            plain,
            table,
            empty=lambda metadata: target.store.encoder.bookmark_object(hub, metadata),
            now=lambda: current_time(server),
            offloader=server.offloader,
        )
    return MetadataFramer(
        server.codecs,
        response_format.media,
        plain,
        response_format.convert.group_version,
        server.offloader,
    )
