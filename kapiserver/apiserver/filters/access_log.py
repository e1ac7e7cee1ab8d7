"""The access log: one line for each request, at `-v` and above.

The line is written when the response or the stream has ended, so that the status, size and
duration of a watch are right too. Mirrors httplog of k8s.io/apiserver.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Awaitable

from kapiserver.apiserver.context import Handler, Server
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse
from kapiserver.apiserver.serving.process.logs import FIELDS, Verbosity

_log = logging.getLogger("kapiserver.access")


def log_access(server: Server, next_handler: Handler) -> Handler:
    """Log requests; without `-v`, or a level for this module, return `next_handler` itself."""
    serving = server.config.serving
    if Verbosity(serving.verbosity, serving.vmodule).of(_log.name, "access_log") < 1:
        return next_handler

    log_request = functools.partial(_log_request, server.cluster_name)

    def handle(request: Request) -> Awaitable[AnyResponse]:
        request.on_complete(log_request)
        return next_handler(request)

    return handle


def _log_request(cluster: str, request: Request) -> None:
    outcome = request.outcome
    assert outcome is not None
    now = time.perf_counter()
    fields: dict[str, object] = {
        "verb": request.info.verb,
        "path": request.path,
        "status": outcome.status,
        "ms": f"{(now - request.trace.start) * 1000:.1f}",
        "bytes": outcome.bytes_sent,
        "user": request.user.name,
        "from": request.remote,
        "agent": request.header("User-Agent"),
        "audit-id": request.audit.id,
    }
    if cluster:
        fields["cluster"] = cluster
    if request.ticket is not None:
        fields |= request.ticket.log_fields(now)
    if request.impersonator is not None:
        fields["impersonator"] = request.impersonator.user.name
    if not outcome.finished:
        fields["finished"] = False
    _log.info("request", extra={FIELDS: fields})
