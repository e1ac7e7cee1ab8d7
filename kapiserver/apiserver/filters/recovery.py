"""Turns every error into a Status response; an unexpected error is logged and becomes a 500.

Mirrors filters/wrap.go (WithPanicRecovery) and responsewriters/status.go of k8s.io/apiserver.
"""

from __future__ import annotations

import logging

from kapiserver.api.errors import drop_tracebacks
from kapiserver.api.types import Tree
from kapiserver.apiserver.context import Handler, Server
from kapiserver.apiserver.corrupt_objects import GATE, status_without_gate
from kapiserver.apiserver.endpoints.responses import status_response
from kapiserver.apiserver.errors import (
    BadImpersonation,
    NotAuthorized,
    RequestTimeout,
    TooManyRequests,
    status_of,
)
from kapiserver.apiserver.faults import DropConnection
from kapiserver.apiserver.filters.metrics import labels_of
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse, Response
from kapiserver.apiserver.status import status
from kapiserver.storage.errors import CorruptList, CorruptObject

_SELF_DEFENCE = (TooManyRequests, RequestTimeout)
"""The errors by which a server ends requests that are too many or take too long."""

_log = logging.getLogger(__name__)


def respond_to_errors(server: Server, next_handler: Handler) -> Handler:
    """Convert errors into responses that contain no internal details."""

    async def handle(request: Request) -> AnyResponse:
        try:
            return await next_handler(request)
        except DropConnection:
            raise
        except Exception as error:
            if isinstance(error, _SELF_DEFENCE):
                labels = labels_of(request)._replace(dry_run="")
                code = 504 if isinstance(error, RequestTimeout) else 429
                server.metrics.requests.terminations.add((labels, code))
            try:
                return error_response(server, request, error)
            finally:
                drop_tracebacks(error)

    return handle


def error_response(server: Server, request: Request, error: Exception) -> Response:
    """Return the Status of an error, in the encoding that the client prefers."""
    if (
        isinstance(error, CorruptObject | CorruptList)
        and GATE not in server.config.features.feature_gates
    ):
        tree: Tree | None = status_without_gate(error)
    else:
        tree = status_of(error, request.info)
    if tree is None:
        _log.error(
            "%s %s failed (audit-id %s)",
            request.method, request.path, request.audit.id, exc_info=error,
        )  # fmt: skip
        message = "This request caused apiserver to panic. Look in the logs for details."
        tree = status(code=500, reason="InternalError", message=message)
    response = status_response(server, request, tree)
    if isinstance(error, NotAuthorized | BadImpersonation):
        response.headers.append(("X-Content-Type-Options", "nosniff"))
    return response
