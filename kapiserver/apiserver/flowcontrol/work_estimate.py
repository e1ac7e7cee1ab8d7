"""Estimates the work of a request: its seats, and how long it takes them after its response.

Most requests take one seat. A list takes one for each 100 KB that the server holds at once for it,
at most ten if the watch cache serves it. A watch counts as a list while it sends its initial
objects. A write takes one, and some more for a moment when many watches get its event. No request
takes more than a part of its level's seats (`max_seats`). Mirrors request/width.go,
list_work_estimator.go and mutating_work_estimator.go of util/flowcontrol of k8s.io/apiserver.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct

from kapiserver.apiserver.request import Query
from kapiserver.apiserver.request_info import RequestInfo

EXECUTION_SECONDS = 0.003
"""How long a request is expected to work; what it really took corrects that at its end."""
MAX_LIST_SEATS = 100
MAX_LIST_SEATS_BY_COUNT = 10
MAX_WRITE_SEATS = 10
BYTES_PER_SEAT = 100_000
MAX_CACHED_LIST_BYTES = 1_000_000
"""A list from the watch cache is streamed: the server holds no more of it at once."""
OBJECTS_PER_SEAT = 100
WATCHES_PER_SEAT = 10
EVENT_SECONDS = 0.005
"""How long the watches of one seat work on an event."""


class WorkEstimate(Struct, frozen=True):
    """The work of a request.

    initial_seats   taken while the request executes
    final_seats     taken for `final_seconds` after that, without delaying the response
    seats           those that it takes from its start to the end of its final seconds
    total_work      its seat-seconds
    """

    initial_seats: int
    final_seats: int
    final_seconds: float
    seats: int
    total_work: float


class ObjectStats(Struct, frozen=True):
    """The objects of a resource: how many, and the bytes of one on average."""

    count: int
    average_bytes: int


StatsOf: TypeAlias = Callable[[RequestInfo], ObjectStats | None]
"""Returns what the server knows about the objects of a resource; None if it serves none."""


@functools.lru_cache(maxsize=1024)
def estimate_of(
    initial_seats: int, final_seats: int = 0, final_seconds: float = 0.0
) -> WorkEstimate:
    """Return the one estimate of all requests with these numbers."""
    seats = max(initial_seats, final_seats)
    work = initial_seats * EXECUTION_SECONDS + final_seats * final_seconds
    return WorkEstimate(initial_seats, final_seats, final_seconds, seats, work)


ONE_SEAT = estimate_of(1)


def estimate_write(info: RequestInfo, watches: int, max_seats: int) -> WorkEstimate:
    """Return the work of a write that this many watches get an event of. `max_seats` are the most
    that its level lets a request take."""
    if watches < WATCHES_PER_SEAT or (info.resource, info.subresource) == _NO_EVENT:
        return ONE_SEAT
    seats = math.ceil(watches / WATCHES_PER_SEAT)
    work = seats * EVENT_SECONDS
    seats = min(seats, max_seats, MAX_WRITE_SEATS)
    return estimate_of(1, seats, work / seats)


class ListEstimator:
    """Estimates the work of lists, and of watches that begin with the objects of a list.

    stats_of    knows the objects of a resource
    by_size     whether lists count by the bytes of their objects, not by their number
    """

    def __init__(self, stats_of: StatsOf, *, by_size: bool = True) -> None:
        self._stats_of = stats_of
        self._by_size = by_size
        self._max_seats = MAX_LIST_SEATS if by_size else MAX_LIST_SEATS_BY_COUNT

    def estimate(self, info: RequestInfo, query: Query, max_seats: int) -> WorkEstimate:
        """Return the work of a list or a watch. `max_seats` are the most that its level lets a
        request take."""
        stats = self._stats_of(info)
        if stats is None or _takes_one_seat(stats):
            return ONE_SEAT
        seats = min(self._seats(info, query, stats), max_seats, self._max_seats)
        return estimate_of(max(1, seats))

    def _seats(self, info: RequestInfo, query: Query, stats: ObjectStats) -> int:
        version = _first(query, "resourceVersion")
        is_watch = info.verb == "watch"
        if is_watch and version not in ("", "0") and not _is_true(query, "sendInitialEvents"):
            return 1  # it begins with no objects
        count, limit = stats.count, _limit_of(query)
        limited = min(count, limit) if limit else count
        is_cached = is_watch or _is_from_cache(query, version, limit)
        has_selector = bool(info.field_selector or info.label_selector)
        if not self._by_size:
            return _seats_by_count(info, count, limited, is_cached, has_selector)
        if info.name:
            loaded = 1
        elif has_selector and not is_cached:
            loaded = max(limited, count // 2)
        else:
            loaded = limited
        size = loaded * stats.average_bytes
        return math.ceil((min(size, MAX_CACHED_LIST_BYTES) if is_cached else size) / BYTES_PER_SEAT)


_MAX_DIGITS = 20
"""Digits of a limit; int64 has fewer."""
_NO_EVENT = ("serviceaccounts", "token")
"""The one write that changes no object."""


def _takes_one_seat(stats: ObjectStats) -> bool:
    """Return whether any list of these objects takes one seat, by size and by count."""
    count = stats.count
    return 2 * count <= OBJECTS_PER_SEAT and count * stats.average_bytes <= BYTES_PER_SEAT


def _seats_by_count(
    info: RequestInfo, count: int, limited: int, is_cached: bool, has_selector: bool
) -> int:
    if info.name:
        processed = 1
    elif is_cached:
        processed = count
    else:
        processed = count + limited if has_selector else 2 * limited
    return math.ceil(processed / OBJECTS_PER_SEAT)


def _limit_of(query: Query) -> int:
    """Return the limit of a list; 0 for none, and for one that the handler will refuse."""
    text = _first(query, "limit")
    return int(text) if text.isdecimal() and len(text) < _MAX_DIGITS else 0


def _is_from_cache(query: Query, version: str, limit: int) -> bool:
    """Return whether kube-apiserver serves a list from its watch cache, as
    cacher/delegator/interface.go of k8s.io/apiserver decides without snapshots."""
    match = _first(query, "resourceVersionMatch")
    if match:
        return match == "NotOlderThan"
    if _first(query, "continue"):
        return False
    return not (limit and version not in ("", "0"))


def _first(query: Query, name: str) -> str:
    values = query.get(name)
    return values[0] if values else ""


def _is_true(query: Query, name: str) -> bool:
    values = query.get(name)
    return values is not None and values[0].lower() not in ("0", "false")
