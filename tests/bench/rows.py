"""The rows of the bench: a name, the measure that fills it, and the figures that are compared."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from tests.bench import http2, measures, verbs
from tests.bench.client import JSON, PROTOBUF, Target
from tests.bench.counters import EVENTS
from tests.bench.measures import Figures

_REQUESTS = ("per s", "server us", "sum us", *EVENTS, "p99 ms")
_LISTS = ("wall s", "server s", "sum s", *EVENTS)
_WATCHES = ("server us", "p99 ms", "in the window %")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table.

    run         takes the server under test and the seconds of one window
    figures     names of those that are compared
    needs_pods  whether the server must hold the pods that lists read
    """

    name: str
    run: Callable[[Target, float], Awaitable[Figures]]
    figures: Sequence[str]
    needs_pods: bool = False


def _get(resource: str, medium: str, count: int) -> Row:
    accept = JSON if medium == "JSON" else PROTOBUF
    return Row(
        name=f"get {resource}, {medium}, {count} connections",
        run=partial(measures.get, resource=resource, accept=accept, count=count),
        figures=_REQUESTS,
    )


def _list(medium: str, query: str, label: str) -> Row:
    accept = JSON if medium == "JSON" else PROTOBUF
    return Row(
        name=f"list pods, {medium}, {label}",
        run=partial(measures.later_list, accept=accept, query=query),
        figures=_LISTS,
        needs_pods=True,
    )


def _write(verb: str, count: int) -> Row:
    run = measures.create if verb == "create" else measures.put
    return Row(
        name=f"{verb} configmaps, {count} connections",
        run=partial(run, count=count),
        figures=_REQUESTS,
    )


def _watch(count: int, rate: int) -> Row:
    return Row(
        name=f"watch, {count} watchers, {rate} changes/s",
        run=partial(measures.watch, count=count, rate=rate),
        figures=_WATCHES,
    )


def _by_client_go(work: str, workers: int, protocol: str) -> Row:
    return Row(
        name=f"client-go {work}, {protocol}, {workers} goroutines",
        run=partial(http2.by_client_go, work=work, workers=workers, protocol=protocol),
        figures=("per s", "server us", "sum us"),
    )


ROWS = (
    _get("configmaps", "JSON", 16),
    _get("configmaps", "JSON", 64),
    _get("pods", "JSON", 16),
    _get("pods", "JSON", 64),
    _get("pods", "protobuf", 64),
    *(_write("create", count) for count in (1, 16, 64)),
    *(_write("put", count) for count in (1, 16, 64)),
    *(
        _list(medium, query, label)
        for medium in ("JSON", "protobuf")
        for query, label in (
            ("?resourceVersion=0", "whole, rv=0"),
            ("?", "whole, consistent"),
            ("?limit=500", "pages of 500"),
        )
    ),
    *(Row(name=name, run=run, figures=_REQUESTS) for name, run in verbs.MEASURES.items()),
    *(Row(name=name, run=run, figures=_LISTS) for name, run in verbs.LISTS.items()),
    _watch(10, 100),
    _watch(100, 100),
    _watch(1000, 10),
    _watch(1000, 100),
    Row(
        name="http2, get configmaps, JSON, 16 streams",
        run=partial(http2.get, streams=16),
        figures=_REQUESTS,
    ),
    *(
        _by_client_go(work, workers, protocol)
        for work, workers in (("get", 1), ("get", 16), ("create", 16))
        for protocol in ("HTTP/1.1", "HTTP/2.0")
    ),
)
