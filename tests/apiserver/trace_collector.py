"""A collector of OpenTelemetry spans for tests. Importing it skips a module without the extra."""

from __future__ import annotations

import http.server
import queue
import threading
from collections.abc import Iterator
from typing import Any

import pytest

trace_service = pytest.importorskip(
    "opentelemetry.proto.collector.trace.v1.trace_service_pb2", reason="no extra `tracing`"
)


class Collector(http.server.ThreadingHTTPServer):
    """Receives spans by OTLP over HTTP."""

    daemon_threads = True

    def __init__(self) -> None:
        self.spans: queue.Queue[Any] = queue.Queue()
        super().__init__(("127.0.0.1", 0), _Handler)

    def all_spans(self) -> list[Any]:
        """The spans that have arrived."""
        return [self.spans.get_nowait() for _ in range(self.spans.qsize())]


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            raise AssertionError("the exporter does not compress by default")
        assert self.path == "/v1/traces"
        for resource in trace_service.ExportTraceServiceRequest.FromString(body).resource_spans:
            names = {each.key: each.value.string_value for each in resource.resource.attributes}
            assert names == {"service.name": "apiserver"}
            for scope in resource.scope_spans:
                for each in scope.spans:
                    self.server.spans.put(each)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def running_collector() -> Iterator[Collector]:
    """The function of a fixture: a collector that runs until the test ends."""
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def configuration(collector: Collector, rate: int) -> str:
    """Return a TracingConfiguration; `rate` is the number of requests in a million to trace."""
    return (
        "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\n"
        f"endpoint: 127.0.0.1:{collector.server_port}\nsamplingRatePerMillion: {rate}\n"
    )
