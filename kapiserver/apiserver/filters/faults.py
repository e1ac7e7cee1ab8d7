"""Injects the faults that a test asked for. See `apiserver/faults.py`."""

from __future__ import annotations

from kapiserver.apiserver.context import Handler, Server
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse


def inject_faults(server: Server, next_handler: Handler) -> Handler:
    """Call the faults around each request, or add nothing to the chain when there are none."""
    faults = server.faults
    if faults is None:
        return next_handler

    async def handle(request: Request) -> AnyResponse:
        await faults.before(request)
        response = await next_handler(request)
        await faults.after(request, response)
        return response

    return handle
