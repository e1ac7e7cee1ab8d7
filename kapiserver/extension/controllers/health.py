"""The port of a program of controllers for the kubelet and for Prometheus.

| path | answer |
| --- | --- |
| /healthz, /livez | 200 while the program runs |
| /readyz | 200 if the informers have all objects, or if another process is the leader; else 500 |
| /metrics | the metrics of the work queues and of the process |

Knows no TLS and no user: the port shows nothing else. Mirrors the health probes and the metrics of
the manager of controller-runtime.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from kapiserver.apiserver.metrics import WorkQueueMetrics
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import Response, page_not_found, text_error, text_response
from kapiserver.apiserver.serving.connection_limits import ConnectionLimits
from kapiserver.apiserver.serving.metrics.controller_families import workqueue_families
from kapiserver.apiserver.serving.server import HttpServer, url_host


class HealthPort:
    """Answers requests about one program."""

    def __init__(self, is_ready: Callable[[], bool], metrics: WorkQueueMetrics) -> None:
        self._is_ready = is_ready
        self._metrics = metrics

    @asynccontextmanager
    async def listen(self, address: str) -> AsyncIterator[str]:
        """Listen at HOST:PORT, or at :PORT of all addresses, until the block ends, and give the
        URL; the system chooses the port for 0. Raises ValueError, OSError."""
        host, port = parse_address(address)
        http = HttpServer(self._handle, _never_handled, ConnectionLimits(), reuse_port=False)
        port = await http.listen_plain(host, port)
        try:
            yield f"http://{url_host(host)}:{port}"
        finally:
            await http.drain(0)

    async def _handle(self, request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            return text_error("405 method not allowed", 405)
        match request.path.rstrip("/"):
            case "/healthz" | "/livez":
                return text_response("ok")
            case "/readyz":
                if self._is_ready():
                    return text_response("ok")
                return text_error("[-]informer-sync failed: not all objects are listed", 500)
            case "/metrics":
                from kapiserver.apiserver.serving.metrics.exposition import metrics_response

                return metrics_response(workqueue_families(self._metrics))
        return page_not_found()


def parse_address(address: str) -> tuple[str, int]:
    """Return host and port of HOST:PORT; an empty host means all addresses. Raises ValueError."""
    host, colon, port = address.rpartition(":")
    if not (colon and port.isascii() and port.isdigit() and int(port) <= 65535):  # ports
        raise ValueError(f"{address}: must be HOST:PORT or :PORT")
    return host.strip("[]"), int(port)


def _never_handled(_request: Request, _error: Exception) -> Response:
    """Return the response to a malformed request."""
    return text_error("400 bad request", 400)
