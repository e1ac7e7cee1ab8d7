"""How long a priority level had how many seats taken and demanded.

Each request changes the load of its level twice, and must pay little for that: the time that the
load lasted is added to one number. Averages and histograms are made of these numbers every ten
seconds and at each scrape. Mirrors fairqueuing/integrator.go and
metrics/timing_ratio_histogram.go of util/flowcontrol of k8s.io/apiserver.
"""

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias

from kapiserver.metrics import Observations

SEAT_BOUNDS = (0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1)
REQUEST_BOUNDS = (0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.25, 0.5, 0.75, 1)
DEMAND_BOUNDS = (0.2, 0.4, 0.6, 0.8, 1, 1.2, 1.4, 1.7, 2, 2.8, 4, 6)
MAX_LOADS = 1000
"""Different loads that are kept before they are summed up."""
Load: TypeAlias = int | tuple[int, int, int, int]
"""Seats taken and demanded by waiting requests, and requests that execute and wait. If nobody waits
and each request has one seat, their number alone: a number is a quicker key than a tuple."""


class Demand(NamedTuple):
    """The seats that a level could have used in some time: taken and waiting ones.

    high    the most at any time
    """

    seconds: float
    average: float
    deviation: float
    high: int


class SeatUsage:
    """The demand since the last `take_demand`, and histograms of the use of seats.

    seconds_by_load     the time of each load since the last `flush`. The queues add to it
                        themselves, without a call
    seat_use, executing_use     how long which part of the seats was taken, and how many requests
                                executed, as a part of them
    waiting_use                 how long which part of the places in queues was taken
    demand_ratio                how long how many seats were demanded, as a part of all
    """

    def __init__(self) -> None:
        self.seconds_by_load: dict[Load, float] = {}
        self.seat_use = Observations(SEAT_BOUNDS)
        self.executing_use = Observations(REQUEST_BOUNDS)
        self.waiting_use = Observations(REQUEST_BOUNDS)
        self.demand_ratio = Observations(DEMAND_BOUNDS)
        self._seats = self._places = 1
        self._seconds = self._integral = self._squares = 0.0
        self._high = 0

    def set_limits(self, seats: int, places: int) -> None:
        """Set the seats and the places in queues that histograms compare with from now on."""
        self.flush()
        self._seats, self._places = max(1, seats), max(1, places)

    def flush_if_full(self) -> None:
        """Sum up the loads if there are many."""
        if len(self.seconds_by_load) > MAX_LOADS:
            self.flush()

    def flush(self) -> None:
        """Sum up the loads since the last call."""
        seats = self._seats
        for load, seconds in self.seconds_by_load.items():
            if isinstance(load, int):
                taken = executing = load
                seats_waiting = waiting = 0
            else:
                taken, seats_waiting, executing, waiting = load
            demand = taken + seats_waiting
            self._seconds += seconds
            self._integral += demand * seconds
            self._squares += demand * demand * seconds
            self._high = max(self._high, demand)
            times = int(seconds * 1e9)  # as `Observations.observe_for`
            self.seat_use.observe_times(taken / seats, times)
            self.executing_use.observe_times(executing / seats, times)
            self.waiting_use.observe_times(waiting / self._places, times)
            self.demand_ratio.observe_times(demand / seats, times)
        self.seconds_by_load.clear()

    def take_demand(self, present: int) -> Demand:
        """Return the demand since the last call, and restart from the present demand."""
        self.flush()
        seconds, high = self._seconds, self._high
        average = deviation = 0.0
        if seconds > 0:
            average = self._integral / seconds
            deviation = math.sqrt(max(0.0, self._squares / seconds - average * average))
        self._seconds = self._integral = self._squares = 0.0
        self._high = present
        return Demand(seconds, average, deviation, high)
