"""What flow control computes of numbers: work, seats, hands of queues, Retry-After, watches."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapiserver.apiserver.flowcontrol.allocation import Bounds, allocate
from kapiserver.apiserver.flowcontrol.retry_after import MAX_SECONDS, RetryAfter
from kapiserver.apiserver.flowcontrol.shuffle_sharding import deal, hash_flow
from kapiserver.apiserver.flowcontrol.watch_tracker import WatchTracker
from kapiserver.apiserver.flowcontrol.work_estimate import (
    ListEstimator,
    ObjectStats,
    estimate_write,
)
from kapiserver.apiserver.request import parse_target
from kapiserver.apiserver.request_info import RequestInfo, parse_request_info

SMALL, LARGE = ObjectStats(799, 1000), ObjectStats(100_000, 1500)
PODS = "/api/v1/pods"


def _info(target: str, method: str = "GET") -> RequestInfo:
    parsed = parse_target(target)
    return parse_request_info(method, parsed.path, parsed.query)


LISTS = [
    # query, what the server knows, seats by size, seats by count
    ("", SMALL, 8, 8),
    ("?resourceVersion=0", SMALL, 8, 8),
    ("?limit=10", SMALL, 1, 8),
    ("?limit=10&resourceVersion=5", SMALL, 1, 1),
    ("?limit=500&resourceVersion=5", SMALL, 5, 10),
    ("?limit=500&continue=x", SMALL, 5, 10),
    ("?limit=500&continue=x&labelSelector=a", SMALL, 5, 10),
    ("?limit=1&continue=x&labelSelector=a", SMALL, 4, 8),
    ("?resourceVersion=5&resourceVersionMatch=Exact", SMALL, 8, 10),
    ("?resourceVersion=5&resourceVersionMatch=NotOlderThan", SMALL, 8, 8),
    ("?labelSelector=a", SMALL, 8, 8),
    ("?fieldSelector=metadata.name%3Da", SMALL, 1, 1),
    ("", LARGE, 10, 10),
    ("?continue=x", LARGE, 100, 10),
    ("?limit=x", SMALL, 8, 8),
    ("?limit=-1", SMALL, 8, 8),
    (f"?limit={'9' * 5000}", SMALL, 8, 8),
    ("", ObjectStats(0, 0), 1, 1),
    ("", None, 1, 1),
    ("?watch=1", SMALL, 8, 8),
    ("?watch=1&resourceVersion=0", SMALL, 8, 8),
    ("?watch=1&resourceVersion=5", SMALL, 1, 1),
    ("?watch=1&resourceVersion=5&sendInitialEvents=true", SMALL, 8, 8),
    ("?watch=1&resourceVersion=5&sendInitialEvents=false", SMALL, 1, 1),
]


@pytest.mark.parametrize(("query", "stats", "by_size", "by_count"), LISTS)
def test_lists(query: str, stats: ObjectStats | None, by_size: int, by_count: int) -> None:
    """A list takes seats for what the server holds of it, and a watch for its initial objects."""
    info, parameters = _info(PODS + query), parse_target(PODS + query).query
    estimators = [ListEstimator(lambda _: stats, by_size=size) for size in (True, False)]
    works = [each.estimate(info, parameters, 1000) for each in estimators]
    assert [work.initial_seats for work in works] == [by_size, by_count]
    assert {(work.final_seats, work.final_seconds) for work in works} == {(0, 0.0)}
    assert estimators[0].estimate(info, parameters, 3).seats == min(3, by_size)


WRITES = [
    # watches, most seats, final seats, final milliseconds
    (0, 10, 0, 0),
    (9, 10, 0, 0),
    (10, 10, 1, 5),
    (25, 10, 3, 5),
    (1000, 10, 10, 50),
    (1000, 4, 4, 125),
    (1000, 50, 10, 50),
]


@pytest.mark.parametrize(("watches", "most", "seats", "milliseconds"), WRITES)
def test_writes(watches: int, most: int, seats: int, milliseconds: int) -> None:
    """A write takes seats after its response for the watches of its event."""
    work = estimate_write(_info(PODS, "POST"), watches, most)
    assert (work.initial_seats, work.final_seats) == (1, seats)
    assert work.final_seconds * 1000 == pytest.approx(milliseconds)
    assert work.seats == max(1, seats)
    assert work.total_work == pytest.approx(0.003 + seats * milliseconds / 1000)


def test_token_has_no_event() -> None:
    """The creation of a token changes no object."""
    path = "/api/v1/namespaces/n/serviceaccounts/a/token"
    assert estimate_write(_info(path, "POST"), 1000, 10).final_seats == 0


WATCHED = [
    # the path of a watch, how many of these writes count it: pods a/x, pods a/y, pods b/x, nodes x
    ("/api/v1/pods?watch=1", (1, 1, 1, 0)),
    ("/api/v1/namespaces/a/pods?watch=1", (1, 1, 0, 0)),
    ("/api/v1/namespaces/a/pods?watch=1&fieldSelector=metadata.name%3Dx", (1, 0, 0, 0)),
    ("/api/v1/pods?watch=1&fieldSelector=spec.nodeName%3Dn", (0, 0, 0, 0)),
    ("/api/v1/pods?watch=1&fieldSelector=spec.nodeName%3D", (1, 1, 1, 0)),
    ("/api/v1/pods?watch=1&fieldSelector=spec.nodeName!%3Dn", (1, 1, 1, 0)),
    ("/api/v1/nodes?watch=1&fieldSelector=spec.nodeName%3Dn", (0, 0, 0, 1)),
]


@pytest.mark.parametrize(("target", "expected"), WATCHED)
def test_watch_tracker(target: str, expected: tuple[int, ...]) -> None:
    """A write counts the watches of its object, of its namespace and of all namespaces."""
    tracker, watch = WatchTracker(), _info(target)
    paths = ("namespaces/a/pods/x", "namespaces/a/pods/y", "namespaces/b/pods/x", "nodes/x")
    writes = [_info(f"/api/v1/{path}", "PUT") for path in paths]
    is_counted = tracker.add(watch)
    assert tuple(map(tracker.count_watches, writes)) == expected
    if is_counted:
        tracker.remove(watch)
    assert tuple(map(tracker.count_watches, writes)) == (0, 0, 0, 0)


@given(st.integers(0, 2**64 - 1), st.integers(1, 200), st.integers(1, 8))
def test_deal(value: int, deck: int, hand: int) -> None:
    """A hand has different cards of the deck."""
    cards = deal(value, deck, min(hand, deck))
    assert len(cards) == len(set(cards)) == min(hand, deck)
    assert all(0 <= card < deck for card in cards)


def test_every_hand_is_dealt() -> None:
    """Each hand is dealt for one of the hash values below the number of hands."""
    assert len({deal(value, 5, 3) for value in range(5 * 4 * 3)}) == 60


def test_hash_of_flow() -> None:
    """The hash is that of kube-apiserver: SHA-256 of both names, with a zero between them."""
    assert hash_flow("global-default", "jane") != hash_flow("global-defaultj", "ane")
    assert 0 <= hash_flow("a", "\ud800") < 2**64


bounds = (
    st.tuples(*[st.floats(0, 50)] * 3)
    .map(sorted)
    .flatmap(
        lambda three: st.sampled_from(
            [Bounds(three[0], three[1], three[2]), Bounds(three[0], three[2], three[1])]
        )
    )
)


@given(st.lists(bounds, min_size=1, max_size=8), st.floats(0, 1))
def test_allocation(levels: list[Bounds], part: float) -> None:
    """Seats sum up to the total, keep their bounds, and are the same part of targets between."""
    least, most = sum(each.lower for each in levels), sum(each.upper for each in levels)
    total = least + part * (most - least)
    seats, fraction = allocate(min(max(total, least), most), levels)
    assert sum(seats) == pytest.approx(total, abs=1e-6)
    for each, level in zip(seats, levels, strict=True):
        assert level.lower - 1e-9 <= each <= level.upper + 1e-9
        if level.lower + 1e-6 < each < level.upper - 1e-6:
            assert each == pytest.approx(fraction * max(level.target, 0.001), abs=1e-5)


def test_impossible_allocation() -> None:
    """Bounds that do not allow the total are an error."""
    with pytest.raises(ValueError, match="the bounds allow 1 to 2 seats, not 3"):
        allocate(3, [Bounds(1, 1, 2)])


def test_retry_after() -> None:
    """Clients of a level that rejects many requests wait longer, and less when that ends."""
    retry = RetryAfter()
    assert retry.reject(1000.0) == 1
    seconds = [retry.reject(1000 + number / 10) for number in range(1, 2000)]
    assert seconds[0] == 1
    assert max(seconds) == MAX_SECONDS
    assert all(later in (each, 2 * each) for each, later in itertools.pairwise(seconds))
    calm = [retry.reject(2000 + 100 * number) for number in range(40)]
    assert calm[0] == MAX_SECONDS - 1
    assert calm[-1] == 1
