"""Traces go on in etcd: a real etcd exports its spans to a collector that the test runs."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from kapiserver.spans import Trace, TraceContext
from kapiserver.storage.etcd.config import TRANSPORTS, EtcdConfig
from kapiserver.storage.etcd.store import open_etcd
from kapiserver.storage.wrappers.metered_store import MeteredStore
from tests.storage.etcd_server import Member

grpc = pytest.importorskip("grpc", reason="no extra `rpc`")
trace_service = pytest.importorskip(
    "opentelemetry.proto.collector.trace.v1.trace_service_pb2", reason="no extra `tracing`"
)
TRACE_ID = 0x4BF92F3577B34DA6A3CE929D0E0E4736
_METHOD = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
SECONDS = 60


@contextmanager
def _collector() -> Iterator[tuple[int, queue.Queue[Any]]]:
    """Receive spans by OTLP over gRPC; yield the port and the spans."""
    spans: queue.Queue[Any] = queue.Queue()

    def export(request: Any, _context: Any) -> Any:
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                for each in scope.spans:
                    spans.put(each)
        return trace_service.ExportTraceServiceResponse()

    class Handler(grpc.GenericRpcHandler):
        def service(self, details: Any) -> Any:
            if details.method != _METHOD:
                return None
            return grpc.unary_unary_rpc_method_handler(
                export,
                request_deserializer=trace_service.ExportTraceServiceRequest.FromString,
                response_serializer=trace_service.ExportTraceServiceResponse.SerializeToString,
            )

    with ThreadPoolExecutor(2) as threads:
        server = grpc.server(threads, handlers=[Handler()])
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        yield port, spans
        server.stop(0).wait()


@pytest.mark.slow
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_spans_of_etcd(transport: str) -> None:
    """A span of etcd has the span of the store's operation as its parent, and its trace, over both
    transports."""
    with _collector() as (port, spans):
        member = Member(
            flags=(
                "--experimental-enable-distributed-tracing=true",
                f"--experimental-distributed-tracing-address=127.0.0.1:{port}",
            )
        )
        member.start()
        try:
            member.wait()
            trace = Trace(context=TraceContext(trace_id=TRACE_ID, span_id=1, sampled=True))
            asyncio.run(_write(member.url, transport, trace))
            (stored,) = trace.spans
            assert stored.name == "etcd"
            while True:
                span = spans.get(timeout=SECONDS)
                if int(span.trace_id.hex(), 16) == TRACE_ID:
                    break
        finally:
            member.remove()
    assert span.name == "etcdserverpb.KV/Txn"
    assert int(span.parent_span_id.hex(), 16) == stored.id


async def _write(url: str, transport: str, trace: Trace) -> None:
    etcd = await open_etcd(EtcdConfig(endpoints=(url,), transport=transport))
    store = MeteredStore(etcd, lambda *_: None, root="/registry")
    trace.begin()
    await store.create("/registry/configmaps/default/a", b"value")
    await store.close()
