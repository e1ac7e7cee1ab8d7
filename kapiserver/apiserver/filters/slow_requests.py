"""Logs requests that take longer than half a second, with the time of their spans.

Mirrors the traces of k8s.io/utils/trace in k8s.io/apiserver. Watches are left out.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable

from kapiserver.apiserver.context import Handler, Server
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse
from kapiserver.apiserver.serving.process.logs import FIELDS

THRESHOLD_SECONDS = 0.5

_log = logging.getLogger(__name__)


def log_slow_requests(server: Server, next_handler: Handler) -> Handler:
    """Begin the trace of a request, and log the request when its response is written, if it was
    slow."""

    def handle(request: Request) -> Awaitable[AnyResponse]:
        request.trace.begin()
        if not request.info.is_long_running:
            request.on_complete(_log_if_slow)
        return next_handler(request)

    return handle


def _log_if_slow(request: Request) -> None:
    seconds = time.perf_counter() - request.trace.start
    if seconds < THRESHOLD_SECONDS:
        return
    outcome = request.outcome
    assert outcome is not None
    fields: dict[str, object] = {
        "verb": request.info.verb,
        "path": request.path,
        "status": outcome.status,
        "ms": f"{seconds * 1000:.1f}",
        "user": request.user.name,
        "audit-id": request.audit.id,
    }
    for name, spent in request.trace.seconds_by_name().items():
        fields[f"{name}-ms"] = f"{spent * 1000:.1f}"
    _log.warning("slow request", extra={FIELDS: fields})
