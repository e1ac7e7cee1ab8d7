"""A priority level: its share of the server's seats, its queues, and what it lends and borrows.

`LevelSpec` is what a PriorityLevelConfiguration says. `PriorityLevel` lives as long as requests
need it, also after its object has gone. Mirrors priorityLevelState of util/flowcontrol's
apf_controller.go of k8s.io/apiserver.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from msgspec import Struct

from kapiserver.api.types import Tree
from kapiserver.apiserver.flowcontrol.allocation import Bounds
from kapiserver.apiserver.flowcontrol.flow_series import FlowSeries
from kapiserver.apiserver.flowcontrol.queue_set import QueueSet
from kapiserver.apiserver.flowcontrol.retry_after import RetryAfter
from kapiserver.apiserver.flowcontrol.seat_usage import Demand

EXEMPT, CATCH_ALL = "exempt", "catch-all"
_MAX_PART = 0.15
"""The part of a level's nominal seats that one request may take."""
_UNLIMITED = 1 << 31
_SMOOTHING = 0.977
"""The part of a falling demand that still counts after one adjustment; half after five minutes."""


class LevelSpec(Struct, frozen=True, kw_only=True):
    """What a PriorityLevelConfiguration says.

    shares          its shares of the server's seats
    lendable        percent of its seats that it lends
    borrowing       percent of its seats that it may borrow; None: no limit
    queues          the number of its queues; 0 rejects requests that do not fit
    """

    uid: str = ""
    is_exempt: bool = False
    shares: int
    lendable: int = 0
    borrowing: int | None = None
    queues: int = 0
    hand_size: int = 0
    queue_length: int = 0


def read_spec(tree: Tree) -> LevelSpec | None:
    """Return what a PriorityLevelConfiguration says; None if it is unusable: only the level
    "exempt" can be exempt."""
    metadata, spec = tree["metadata"], tree["spec"]
    is_exempt = spec.get("type") == "Exempt"
    part = spec.get("exempt" if is_exempt else "limited")
    if part is None or is_exempt != (metadata["name"] == EXEMPT):
        return None
    common = {
        "uid": metadata.get("uid") or "",
        "is_exempt": is_exempt,
        "shares": part.get("nominalConcurrencyShares") or 0,
        "lendable": part.get("lendablePercent") or 0,
    }
    if is_exempt:
        return LevelSpec(**common)
    common["borrowing"] = part.get("borrowingLimitPercent")
    response = part.get("limitResponse") or {}
    queuing = response.get("queuing")
    if (response.get("type") == "Queue") != (queuing is not None):
        return None
    if queuing is None:
        return LevelSpec(**common)
    return LevelSpec(
        **common,
        queues=queuing["queues"],
        hand_size=min(queuing["handSize"], queuing["queues"]),
        queue_length=queuing["queueLengthLimit"],
    )


class PriorityLevel:
    """One priority level.

    series      the metrics of its requests, by FlowSchema
    max_seats   the seats that one request may take
    quiescing   whether its object is gone, and its last requests end
    nominal, lower, upper, current  seats: its share, the share without what it lends, with what it
                borrows, and those of the moment
    demand      the demand of the last period
    smoothed    the demand that the next allocation counts with
    target      the demand that the last allocation counted with
    """

    def __init__(
        self,
        name: str,
        call_later: Callable[[float, Callable[[], None]], object],
        now: Callable[[], float],
    ) -> None:
        self.name = name
        self.spec = LevelSpec(shares=0)
        self.queue_set = QueueSet(call_later, now)
        self.series: dict[str, FlowSeries] = {}
        self.retry_after = RetryAfter()
        self.max_seats = _UNLIMITED
        self.quiescing = False
        self.nominal = self.lower = self.upper = self.current = 0
        self.demand = Demand(0.0, 0.0, 0.0, 0)
        self.smoothed = self.target = 0.0
        self._is_new = True

    def configure(self, spec: LevelSpec) -> None:
        """Take over a specification."""
        self.spec, self.quiescing = spec, False
        self.queue_set.configure(spec.queues, spec.queue_length, is_exempt=spec.is_exempt)

    def set_share(self, total: int, shares: int) -> None:
        """Set the nominal seats and the bounds, given the seats of the server and the shares of all
        levels."""
        spec = self.spec
        self.nominal = math.ceil(total * spec.shares / shares) if shares else 0
        lendable = rounded(self.nominal * spec.lendable / 100)
        borrowed = total if spec.borrowing is None else rounded(self.nominal * spec.borrowing / 100)
        self.lower, self.upper = self.nominal - lendable, self.nominal + borrowed
        self.max_seats = _UNLIMITED
        if spec.queues:
            part = min(math.ceil(self.nominal * _MAX_PART), self.nominal // spec.hand_size)
            self.max_seats = max(1, part)
        if self._is_new:
            self._is_new = False
            self.current = self.nominal - lendable // 2

    def end_period(self) -> None:
        """Note the demand since the last period: it falls slowly, and rises at once."""
        queue_set = self.queue_set
        queue_set.sync_now()
        self.demand = queue_set.usage.take_demand(queue_set.seats_in_use + queue_set.seats_waiting)
        if self.demand.seconds > 0:
            envelope = self.demand.average + self.demand.deviation
            falling = _SMOOTHING * self.smoothed + (1 - _SMOOTHING) * envelope
            self.smoothed = max(envelope, falling)

    def count_seats(self) -> None:
        """Count the requests that execute, and their seats, in the metrics of their FlowSchemas."""
        for series in self.series.values():
            series.executing = series.seats = 0
        queue_set = self.queue_set
        for ticket in queue_set.executing:
            ticket.flow.series.executing += 1
        for ticket in (*queue_set.executing, *queue_set.lingering):
            ticket.flow.series.seats += ticket.work.seats

    @property
    def least(self) -> int:
        """The seats that the next allocation must leave the level: those that it used in the last
        period, of its own."""
        high = self.demand.high
        if self.spec.is_exempt:
            return max(self.lower, high)
        return max(self.lower, min(self.nominal, high))

    def bounds(self) -> Bounds:
        """Return the bounds of the next allocation."""
        least = self.least
        return Bounds(least, max(least, self.smoothed), max(least, self.upper))

    def set_current(self, seats: int, total: int) -> None:
        """Set the seats of the moment, of the total of the server."""
        self.current = seats
        self.queue_set.set_limit(seats)
        spec = self.spec
        places = max(1, spec.queues) * max(1, spec.queue_length)
        self.queue_set.usage.set_limits(seats if seats > 0 else rounded(total / 10), places)


def rounded(value: float) -> int:
    """Return the nearest integer; halves go up, as in Go."""
    return math.floor(value + 0.5)
