"""Adds headers to every response: Cache-Control, the flow of the request, the warnings collected
for the client, and the audit id.

Mirrors filters/cachecontrol.go and warning.go of k8s.io/apiserver.
"""

from __future__ import annotations

from kapiserver.apiserver.context import Handler, Server
from kapiserver.apiserver.filters.audit import AUDIT_ID
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse

CACHE_CONTROL = ("Cache-Control", "no-cache, private")


def add_headers(server: Server, next_handler: Handler) -> Handler:
    """Add the audit id, Cache-Control unless the response has one, the uids of FlowSchema and
    priority level if flow control has seen the request, and a Warning header for each warning."""

    async def handle(request: Request) -> AnyResponse:
        response = await next_handler(request)
        headers = response.headers
        has_cache_control = bool(headers) and "Cache-Control" in dict(headers)
        if request.ticket is not None:
            headers.extend(request.ticket.headers)
        if not has_cache_control:
            headers.append(CACHE_CONTROL)
        for text in request.warnings.texts:
            headers.append(("Warning", warning_header(text)))
        headers.append((AUDIT_ID, request.audit.id))
        return response

    return handle


def warning_header(text: str) -> str:
    """Return the value of a Warning header (RFC 7234, 5.5): code 299, no agent, a quoted text,
    which has no control characters."""
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{quoted}"'
