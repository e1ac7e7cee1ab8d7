"""What the watch cache of one resource and its watches count, for /metrics.

The buckets are those of storage/cacher/metrics and endpoints/metrics of k8s.io/apiserver.
"""

from __future__ import annotations

from kapiserver.api.group import GroupVersion
from kapiserver.metrics import Observations

FILL_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 180, 600)
WAIT_SECONDS = (0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3)
FRAME_BYTES = tuple(1024 << exponent for exponent in range(8))


class CacheMetrics:
    """The numbers of one watch cache since the start of the server.

    events_received   changes that the store's watch brought
    progress_notes    notifications of the store's watch that no change is missing
    fill_seconds      seconds that each attempt to fill the cache took, if it succeeded
    failed_fills      attempts that failed
    wait_seconds      seconds that reads waited for a revision that the cache did not have
    consistent_reads  reads of the newest revision, by whether the cache got it in time
    """

    __slots__ = (
        "consistent_reads",
        "events_received",
        "failed_fills",
        "fill_seconds",
        "progress_notes",
        "wait_seconds",
    )

    def __init__(self) -> None:
        self.events_received = 0
        self.progress_notes = 0
        self.fill_seconds = Observations(FILL_SECONDS)
        self.failed_fills = 0
        self.wait_seconds = Observations(WAIT_SECONDS)
        self.consistent_reads = [0, 0]


class WatchMetrics:
    """The numbers of all watches of one resource.

    initial_events  events with which watches began: objects, and changes since a revision
    frame_bytes     the sizes of the events that were written to watchers, by version
    ended_watches   watches that were ended because their clients read too slowly
    """

    __slots__ = ("ended_watches", "frame_bytes", "initial_events")

    def __init__(self) -> None:
        self.initial_events = 0
        self.frame_bytes: dict[GroupVersion, Observations] = {}
        self.ended_watches = 0

    def count_frame(self, version: GroupVersion, size: int, watchers: int = 1) -> None:
        """Count the frame of one event, which was written to a number of watchers."""
        sizes = self.frame_bytes.get(version)
        if sizes is None:
            sizes = self.frame_bytes[version] = Observations(FRAME_BYTES)
        sizes.observe_times(size, watchers)


class ListMetrics:
    """The lists of one resource that were read from one storage.

    lists      how many, a page counts as a list
    fetched    objects that were read
    evaluated  those of them that were read from the store, to try selectors on them
    returned   objects that were selected
    """

    __slots__ = ("evaluated", "fetched", "lists", "returned")

    def __init__(self) -> None:
        self.lists = self.fetched = self.evaluated = self.returned = 0

    def add(self, fetched: int, returned: int, evaluated: int = 0) -> None:
        """Count one list."""
        self.lists += 1
        self.fetched += fetched
        self.evaluated += evaluated
        self.returned += returned
