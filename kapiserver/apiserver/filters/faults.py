"""Injects the faults of a test (`apiserver/faults.py`)."""

from __future__ import annotations

from kapiserver.apiserver.context import Handler, Server
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse


def inject_faults(server: Server, next_handler: Handler) -> Handler:
    """Call the faults around each request; without faults return `next_handler` itself."""
    faults = server.faults
    if faults is None:
        return next_handler

    async def handle(request: Request) -> AnyResponse:
        response = await faults.before(request)
        if response is None:
            response = await next_handler(request)
        await faults.after(request, response)
        return response

    return handle
