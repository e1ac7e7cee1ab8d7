"""The metrics of the requests of one FlowSchema at one priority level.

Mirrors util/flowcontrol/metrics/metrics.go of k8s.io/apiserver.
"""

from __future__ import annotations

from kapiserver.metrics import Counter, Observations

REQUEST_SECONDS = (0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30)
QUEUE_LENGTHS = (0, 10, 25, 50, 100, 250, 500, 1000)
SEATS = (1, 2, 4, 8, 16, 32, 64, 100)
WATCHES = (0, 1, 10, 100, 1000, 10000)


class FlowSeries:
    """The metrics of the requests of one FlowSchema at one priority level.

    What nearly every request has is not observed but computed when the metrics are read: one seat,
    no watches, no wait.

    dispatched          requests that began to execute
    executing, seats    those that execute, and their seats; final seats count until they are free.
                        `PriorityLevel.count_seats` brings both up to date
    waiting, seats_waiting  those in queues, and their seats
    not_accommodated    how often the next request of a level did not fit in its free seats
    rejected            rejected requests by reason
    wide                the estimated seats of requests with more than one
    writes, watches     how many writes no watch was interested in; the watches of other writes
    waits, failed_waits     seconds in a queue of requests that executed then, and that did not
    """

    def __init__(self) -> None:
        self.dispatched = self.executing = self.seats = 0
        self.waiting = self.seats_waiting = self.not_accommodated = self.writes = 0
        self.rejected: Counter[str] = Counter()
        self.execution_seconds = Observations(REQUEST_SECONDS)
        self.watch_seconds = Observations(REQUEST_SECONDS)
        self.waits = Observations(REQUEST_SECONDS)
        self.failed_waits = Observations(REQUEST_SECONDS)
        self.queue_lengths = Observations(QUEUE_LENGTHS)
        self.wide = Observations(SEATS)
        self.watches = Observations(WATCHES)

    def enqueue(self, seats: int, length: int) -> None:
        """Count a request that waits in a queue of that length, itself included."""
        self.waiting += 1
        self.seats_waiting += seats
        self.queue_lengths.observe(length)

    def dequeue(self, seats: int) -> None:
        """Count a request that no longer waits."""
        self.waiting -= 1
        self.seats_waiting -= seats
