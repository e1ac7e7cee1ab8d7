"""One line a request, at `-v` and above. Mirrors httplog of k8s.io/apiserver."""

from __future__ import annotations

import logging
import time

from kapiserver.apiserver.context import Handler, Server
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import Answer
from kapiserver.apiserver.serving.logs import FIELDS

_log = logging.getLogger("kapiserver.access")


def log_access(server: Server, after: Handler) -> Handler:
    """Say what was asked and answered; costs nothing where nobody wants to know."""
    if server.config.verbosity < 1:
        return after

    async def handle(request: Request) -> Answer:
        begun = time.perf_counter()
        answer = await after(request)
        fields = {
            "verb": request.info.verb,
            "path": request.path,
            "status": answer.status,
            "ms": f"{(time.perf_counter() - begun) * 1000:.1f}",
            "from": request.remote,
            "agent": request.header("User-Agent"),
            "audit-id": request.audit_id,
        }
        _log.info("request", extra={FIELDS: fields})
        return answer

    return handle
