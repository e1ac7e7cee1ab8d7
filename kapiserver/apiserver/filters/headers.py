"""Headers that every answer carries, and the warnings collected on the way.

Mirrors filters/cachecontrol.go and warning.go of k8s.io/apiserver.
"""

from __future__ import annotations

import re

from kapiserver.apiserver.context import Handler, Server
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse

CACHE_CONTROL = ("Cache-Control", "no-cache, private")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def add_headers(server: Server, next_handler: Handler) -> Handler:
    """Forbid shared caches; tell what the client should know."""

    async def handle(request: Request) -> AnyResponse:
        answer = await next_handler(request)
        if not any(name == "Cache-Control" for name, _ in answer.headers):
            answer.headers.append(CACHE_CONTROL)
        for text in request.warnings.texts:
            answer.headers.append(("Warning", warning_header(text)))
        return answer

    return handle


def warning_header(text: str) -> str:
    """A Warning header's value (RFC 7234, 5.5): code 299, no agent, the text quoted."""
    shown = _CONTROL.sub(" ", text).replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{shown}"'
