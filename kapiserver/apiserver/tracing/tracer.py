"""Exports the spans of sampled requests by OTLP over HTTP.

A request collects its spans in any case (`spans.py`). When a sampled request has ended, they become
spans of OpenTelemetry with kube-apiserver's names, and wait in the queue of a BatchSpanProcessor,
whose thread sends them. The queue is bounded: what does not fit is dropped. Requests that are not
sampled cost the choice only. OpenTelemetry is imported by functions, as the extra may not be there.

Mirrors tracing/utils.go of k8s.io/component-base and endpoints/filters/traces.go of
k8s.io/apiserver.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import getrandbits
from typing import TYPE_CHECKING, Any

from kapiserver.apiserver.request import Request
from kapiserver.apiserver.tracing.configuration import (
    MAX_RATE,
    read_tracing_configuration,
    traces_url,
)
from kapiserver.apiserver.tracing.trace_context import parse_traceparent, valid_baggage
from kapiserver.spans import Span, Trace, TraceContext, new_span_id

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace.status import Status

QUEUE_SIZE = 2048
"""The spans that wait at most."""
EXPORT_SECONDS = 2.0
"""The longest time of one export, with its retries."""
_TRUSTED_GROUPS = frozenset({"system:masters", "system:monitoring"})
"""The groups whose users continue a trace; a request of another user begins one."""
_ID_MASK = (1 << 64) - 1
_SCOPE = "k8s.io/component-base/tracing"
_NAMES = {
    "kms": "TransformFromStorage with envelopeTransformer",
    "mutating-webhook": "Call mutating webhook",
    "validating-webhook": "Call validating webhook",
}
"""kube-apiserver's names of spans that have other names in logs and audit annotations."""
_ETCD_NAMES = {
    "get": "Get etcd3",
    "list": "List(recursive=true) etcd3",
    "create": "Create etcd3",
    "update": "GuaranteedUpdate etcd3",
    "delete": "Delete etcd3",
}


def make_tracer(file: Path) -> Tracer:
    """Return the tracer of a configuration file. Raises BadConfiguration, ValueError without
    OpenTelemetry."""
    tree = read_tracing_configuration(file)
    return Tracer(
        traces_url(tree.get("endpoint") or ""), (tree.get("samplingRatePerMillion") or 0) / MAX_RATE
    )


class Tracer:
    """Decides which requests are traced, and exports their spans."""

    def __init__(self, url: str, rate: float) -> None:
        self._limit = round(rate * (_ID_MASK + 1))
        """Traces whose identifier's low half is below it are sampled."""
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
        except ImportError as error:
            raise ValueError(
                f"tracing needs the package {error.name}: pip install 'kapiserver[tracing]'"
            ) from error
        self._resource = Resource({"service.name": "apiserver"})
        exporter = OTLPSpanExporter(endpoint=url, timeout=EXPORT_SECONDS)
        self._processor = BatchSpanProcessor(exporter, max_queue_size=QUEUE_SIZE)

    async def close(self) -> None:
        """Send what waits, and end the thread."""
        await asyncio.to_thread(self._processor.shutdown)

    def begin(self, request: Request) -> TraceContext:
        """Return the place of a request in a trace: below the client's span if the client is
        trusted, which decides then whether the trace is sampled."""
        parent, baggage = None, valid_baggage(request.header("baggage"))
        if not _TRUSTED_GROUPS.isdisjoint(request.user.groups):
            parent = parse_traceparent(request.header("traceparent"))
        if parent is not None:
            return TraceContext(
                trace_id=parent.trace_id,
                span_id=new_span_id(),
                parent_id=parent.span_id,
                sampled=parent.sampled,
                state=request.header("tracestate"),
                baggage=baggage,
            )
        trace_id = getrandbits(128) or 1
        sampled = trace_id & _ID_MASK < self._limit
        return TraceContext(
            trace_id=trace_id, span_id=new_span_id(), sampled=sampled, baggage=baggage
        )

    def export(self, request: Request) -> None:
        """Queue the spans of a sampled request that has ended."""
        from opentelemetry.trace import SpanKind

        trace, context = request.trace, request.trace.context
        assert context is not None
        ended = time.perf_counter()
        server_span = Span("", trace.start, ended, id=context.span_id)
        self._processor.on_end(
            self._readable(
                context, server_span, context.parent_id, name=_name_of_request(request),
                kind=SpanKind.SERVER, attributes=_attributes(request), status=_status(request),
            )
        )  # fmt: skip
        for span in (*trace.spans, *_stream_spans(trace, ended)):
            parent_id = context.span_id if span.parent is None else _identify(span.parent)
            _identify(span)
            self._processor.on_end(self._readable(context, span, parent_id, name=_name(span)))

    def _readable(
        self, context: TraceContext, span: Span, parent_id: int, **options: Any
    ) -> ReadableSpan:
        """Return a span as the SDK exports it."""
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope
        from opentelemetry.trace import SpanContext, TraceFlags

        epoch = time.time() - time.perf_counter()
        options.setdefault("attributes", span.attributes)
        return ReadableSpan(
            context=SpanContext(context.trace_id, span.id, False, TraceFlags(TraceFlags.SAMPLED)),
            parent=SpanContext(context.trace_id, parent_id, False) if parent_id else None,
            resource=self._resource,
            instrumentation_scope=InstrumentationScope(_SCOPE),
            start_time=round((span.start + epoch) * 1e9),
            end_time=round((span.end + epoch) * 1e9),
            **options,
        )


def _stream_spans(trace: Trace, ended: float) -> Iterator[Span]:
    """Yield the span of the events of a watch, which ends with the request."""
    for span in trace.spans:
        if span.name == "cacher.Watch":
            yield Span("WatchServer.HandleHTTP", span.end, ended, span.parent)


def _identify(span: Span) -> int:
    """Return the identifier of a span, which it gets if it has none."""
    span.id = span.id or new_span_id()
    return span.id


def _name(span: Span) -> str:
    if span.name == "etcd" and span.attributes is not None:
        return _ETCD_NAMES[span.attributes["operation"]]
    return _NAMES.get(span.name, span.name)


def _name_of_request(request: Request) -> str:
    """Return the method, and for a resource the pattern of the path, without any name."""
    info = request.info
    if not info.is_resource_request:
        return request.method
    parts = ["", info.prefix, info.version.group, info.version.version]
    parts += ["namespaces", "{:namespace}"] if info.namespace else []
    parts += [info.resource, "{:name}" if info.name else "", info.subresource]
    return f"{request.method} /{'/'.join(filter(None, parts))}"


def _attributes(request: Request) -> Mapping[str, str | int]:
    """Return the attributes of a request. The query is left out: it may have credentials."""
    assert request.outcome is not None
    return {
        "http.request.method": request.method,
        "http.response.status_code": request.outcome.status,
        "http.target": request.path,
        "url.path": request.path,
        "user_agent.original": request.header("User-Agent"),
        "client.address": request.remote,
        "audit-id": request.audit.id,
    }


def _status(request: Request) -> Status:
    from opentelemetry.trace.status import Status, StatusCode

    assert request.outcome is not None
    failed = request.outcome.status >= 500
    return Status(StatusCode.ERROR) if failed else Status(StatusCode.UNSET)
