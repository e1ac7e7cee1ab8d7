"""Answers new requests with 429 while the server stops, with --shutdown-send-retry-after.

The listener closes each connection after such a response. Health checks and metrics are served, and
requests of API servers. Mirrors filters/with_retry_after.go of k8s.io/apiserver.
"""

from __future__ import annotations

from kapiserver.apiserver.context import Handler, Server
from kapiserver.apiserver.filters.audit import AUDIT_ID
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse, text_error

RETRY_SECONDS = 5
_TEXT = "The apiserver is shutting down, please try again later."
_SERVED_PATHS = ("/readyz", "/livez", "/healthz", "/metrics")
_SERVED_AGENT = "kube-apiserver/"


def send_retry_after(server: Server, next_handler: Handler) -> Handler:
    """Refuse requests while the server stops. Return `next_handler` itself without the flag."""
    if not server.config.shutdown.shutdown_send_retry_after:
        return next_handler
    health = server.health

    async def handle(request: Request) -> AnyResponse:
        if not health.refusing or _is_served(request):
            return await next_handler(request)
        response = text_error(_TEXT, 429)
        response.headers.append(("Retry-After", str(RETRY_SECONDS)))
        response.headers.append((AUDIT_ID, request.audit.id))
        return response

    return handle


def _is_served(request: Request) -> bool:
    agent = request.header("User-Agent")
    return request.path.startswith(_SERVED_PATHS) or agent.startswith(_SERVED_AGENT)
