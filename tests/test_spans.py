"""The spans of a request."""

from __future__ import annotations

import asyncio
from time import perf_counter

import pytest

from kapiserver import spans
from kapiserver.spans import Span, Trace, add_span, span


def test_parents() -> None:
    """The parent of a span is the one that is open in its task, also in tasks that are at work at
    the same time; the parent of an outermost span is the request."""
    trace = Trace()

    async def call(name: str) -> None:
        with span(name):
            await asyncio.sleep(0)
            started = perf_counter()
            await asyncio.sleep(0)
            add_span("etcd", started, perf_counter())

    async def run() -> None:
        trace.begin()
        add_span("authentication", trace.start, perf_counter())
        with span("admission"):
            await asyncio.gather(call("first"), call("second"))
        with span("etcd"):
            pass

    asyncio.run(run())
    parents = [(each.name, each.parent and each.parent.name) for each in trace.spans]
    assert parents == [
        ("authentication", None),
        ("etcd", "first"),
        ("first", "admission"),
        ("etcd", "second"),
        ("second", "admission"),
        ("admission", None),
        ("etcd", None),
    ]
    for each in trace.spans:
        assert trace.start <= each.start <= each.end
        if each.parent is not None:
            assert each.parent.start <= each.start <= each.end <= each.parent.end


def test_a_span_ends_with_an_error() -> None:
    """An error ends a span and passes."""
    trace = Trace()

    async def run() -> None:
        trace.begin()
        with pytest.raises(KeyError), span("outer"), span("inner"):
            raise KeyError
        with span("next"):
            pass

    asyncio.run(run())
    assert [each.parent and each.parent.name for each in trace.spans] == ["outer", None, None]
    assert all(each.end > each.start for each in trace.spans)


def test_work_for_no_request() -> None:
    """A span measures time without a request, too."""
    with span("etcd") as spent:
        pass
    assert spent.end > spent.start
    assert spent.parent is None


@pytest.mark.parametrize(
    ("intervals", "expected"),
    [
        ([], 0),
        ([(1, 3)], 2),
        ([(1, 3), (5, 6)], 3),
        ([(1, 3), (1, 2), (2, 4)], 3),
        ([(1, 9), (2, 3), (8, 9)], 8),
    ],
)
def test_overlapping_time_counts_once(
    intervals: list[tuple[float, float]], expected: float
) -> None:
    """The seconds of a name are those during which one of its spans was open."""
    trace = Trace(spans=[Span("webhook", start, end) for start, end in intervals])
    trace.spans.append(Span("etcd", 10, 15))
    assert trace.seconds(("webhook",)) == expected
    assert trace.seconds(("webhook", "etcd")) == expected + 5
    assert trace.seconds_by_name() == ({"webhook": expected} if intervals else {}) | {"etcd": 5}


def test_a_request_keeps_a_limited_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit only the seconds are kept, by name."""
    monkeypatch.setattr(spans, "MAX_SPANS", 3)
    trace = Trace()

    async def run() -> None:
        trace.begin()
        for _ in range(5):
            with span("etcd") as etcd:
                pass
            etcds.append(etcd)

    etcds: list[Span] = []
    asyncio.run(run())
    assert trace.spans == etcds[:3]
    assert trace.seconds_by_name() == {
        "etcd": pytest.approx(sum(each.end - each.start for each in etcds))
    }


def test_no_cycles() -> None:
    """No reference leads from a span to its trace."""
    trace = Trace()

    async def run() -> None:
        trace.begin()
        with span("outer"), span("inner"):
            pass

    asyncio.run(run())
    assert not any(isinstance(value, Trace) for each in trace.spans for value in _fields(each))


def _fields(each: Span) -> list[object]:
    return [getattr(each, name) for name in each.__struct_fields__]
