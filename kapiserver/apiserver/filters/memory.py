"""Refuses requests with 429 while the process takes more memory than its limit.

Health checks, metrics and deletions pass: they take no memory that stays. kube-apiserver has no
such limit.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kapiserver.apiserver.context import Handler, Server
from kapiserver.apiserver.errors import TooManyRequests
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse

_ALLOWED_PATHS = ("/healthz", "/livez", "/readyz", "/metrics")


def limit_memory(server: Server, next_handler: Handler) -> Handler:
    """Refuse requests above `--max-memory`."""
    memory_limit = server.memory_limit
    if memory_limit is None:
        return next_handler

    def handle(request: Request) -> Awaitable[AnyResponse]:
        if memory_limit.is_exceeded() and not _is_allowed(request):
            raise TooManyRequests("the server is out of memory, please try again later")
        return next_handler(request)

    return handle


def _is_allowed(request: Request) -> bool:
    info = request.info
    if info.is_resource_request:
        return info.verb == "delete"
    return request.path.startswith(_ALLOWED_PATHS)
