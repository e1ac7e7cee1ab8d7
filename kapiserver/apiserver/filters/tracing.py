"""Gives a request its place in a trace, and exports its spans when it has ended."""

from __future__ import annotations

from kapiserver.apiserver.context import Handler, Server
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse


def trace_requests(server: Server, next_handler: Handler) -> Handler:
    """Trace requests; without a tracer return `next_handler` itself."""
    tracer = server.tracer
    if tracer is None:
        return next_handler

    async def handle(request: Request) -> AnyResponse:
        request.trace.context = tracer.begin(request)
        if request.trace.context.sampled:
            request.on_complete(tracer.export)
        return await next_handler(request)

    return handle
