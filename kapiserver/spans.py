"""What a request spends its time on: spans with a name, a start, an end and a parent.

    with span("admission"):
        ...

A span belongs to the request that the running task works on, in whatever layer, and its parent is
the span that is open in that task. Work for no request leaves no span. The audit log, the metrics
and the log of slow requests add up spans by name; with --tracing-config-file they are exported.

`with span` costs 8,000 instructions (decision 122). What every request does costs a quarter: it
adds a Span when it has ended, to `request.trace`, or by `add_span` in a layer that sees no request.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from random import getrandbits
from time import perf_counter

from msgspec import Struct, field

MAX_SPANS = 1000
"""Spans of a request that are kept. Of others, as in the deletion of a large collection, only the
seconds are, by name."""


class Span(Struct, eq=False, gc=False):
    """One part of the work on a request; a context manager for that work.

    start, end  in seconds of `time.perf_counter`; the end equals the start while the span is open
    parent      the span in which this one began; None: the request. It is the only reference, so
                that spans and their trace are in no cycle, and need no garbage collector
    attributes  what a tracer exports besides the name; None if there is nothing to say
    id          its identifier in the headers of calls; 0 until a call needs one
    """

    name: str
    start: float
    end: float
    parent: Span | None = None
    attributes: Mapping[str, str] | None = None
    id: int = 0

    def __enter__(self) -> Span:
        _SPAN.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        self.end = perf_counter()
        if _SPAN.get() is self:
            _SPAN.set(self.parent)
        trace = _TRACE.get()
        if trace is not None:
            trace.add(self)


class TraceContext(Struct, frozen=True, kw_only=True, gc=False):
    """Where a request is in a trace of several servers, see W3C Trace Context.

    span_id     the identifier of the request's span
    parent_id   that of the client's span; 0 if the request begins the trace
    sampled     whether spans are exported
    state       the header `tracestate`, which is passed on
    baggage     the header `baggage` of W3C Baggage, which is passed on
    """

    trace_id: int
    span_id: int
    parent_id: int = 0
    sampled: bool = False
    state: str = ""
    baggage: str = ""


class _Nothing:
    """A context manager that does nothing, in half of the time of `contextlib.nullcontext`."""

    __slots__ = ()

    def __enter__(self) -> None:
        pass

    def __exit__(self, _type: object, _error: object, _traceback: object) -> None:
        pass


_NOTHING = _Nothing()


class Trace(Struct, eq=False, gc=False):
    """The spans of one request.

    start   when the request was received, in seconds of `time.perf_counter`
    spans   those that have ended, in the order of their ends, at most MAX_SPANS
    context None if the server does not trace
    """

    start: float = field(default_factory=perf_counter)
    spans: list[Span] = field(default_factory=list)
    context: TraceContext | None = None
    _sums: dict[str, float] | None = None
    """The seconds of spans that are not kept, by name."""

    def begin(self) -> None:
        """Let the spans of the running task, and of tasks that it starts, belong to this trace."""
        _TRACE.set(self)

    @property
    def is_sampled(self) -> bool:
        """Whether the spans are exported."""
        return self.context is not None and self.context.sampled

    def detail(self, name: str) -> AbstractContextManager[object]:
        """Return a span that only a tracer needs; it is left out if nothing is exported."""
        context = self.context
        return span(name) if context is not None and context.sampled else _NOTHING

    def add(self, ended: Span) -> None:
        """Add a span that has ended."""
        if len(self.spans) < MAX_SPANS:
            self.spans.append(ended)
            return
        if self._sums is None:
            self._sums = {}
        seconds = ended.end - ended.start
        self._sums[ended.name] = self._sums.get(ended.name, 0.0) + seconds

    def seconds(self, names: Collection[str]) -> float:
        """Return the time during which a span of one of these names was open. Spans that overlap,
        as those of webhooks that are called at once, do not count twice."""
        total = covered = 0.0
        spans = [span for span in self.spans if span.name in names]
        spans.sort(key=_start)
        for span in spans:
            if span.end > covered:
                total += span.end - max(span.start, covered)
                covered = span.end
        if self._sums is not None:
            total += sum(self._sums.get(name, 0.0) for name in names)
        return total

    def seconds_by_name(self) -> dict[str, float]:
        """Return the time during which a span of each name was open."""
        names = dict.fromkeys(span.name for span in self.spans) | dict.fromkeys(self._sums or ())
        return {name: self.seconds((name,)) for name in names}


_TRACE: ContextVar[Trace | None] = ContextVar("TRACE", default=None)
"""The trace of the request that the running task works on."""
_SPAN: ContextVar[Span | None] = ContextVar("SPAN", default=None)
"""The span that is open in the running task."""


def _start(span: Span) -> float:
    return span.start


def span(name: str, attributes: Mapping[str, str] | None = None) -> Span:
    """Return a span that begins now and ends with its block."""
    now = perf_counter()
    return Span(name, now, now, _SPAN.get(), attributes)


def add_span(
    name: str, start: float, end: float, attributes: Mapping[str, str] | None = None
) -> None:
    """Add a span that has ended, and in which no other began."""
    trace = _TRACE.get()
    if trace is not None:
        trace.add(Span(name, start, end, _SPAN.get(), attributes))


def is_sampled() -> bool:
    """Report whether the running task works on a request whose spans are exported."""
    trace = _TRACE.get()
    return trace is not None and trace.context is not None and trace.context.sampled


def new_span_id() -> int:
    """Return a random identifier of a span."""
    return getrandbits(64) or 1


def trace_headers() -> tuple[tuple[str, str], ...]:
    """Return the headers of a call that the running task makes for a request: `traceparent`,
    `tracestate` and `baggage`; none if the server does not trace."""
    trace = _TRACE.get()
    context = trace.context if trace is not None else None
    if context is None:
        return ()
    span_id, open_span = context.span_id, _SPAN.get()
    if open_span is not None and context.sampled:
        span_id = open_span.id = open_span.id or new_span_id()
    flags = "01" if context.sampled else "00"
    headers = [("traceparent", f"00-{context.trace_id:032x}-{span_id:016x}-{flags}")]
    if context.state:
        headers.append(("tracestate", context.state))
    if context.baggage:
        headers.append(("baggage", context.baggage))
    return tuple(headers)
