"""The logical clusters that are open in this process: opened at the first use, closed at rest.

    state     who moves it                                               next state
    absent    `use`: the first request                                   opening
    opening   the task of the cluster: its parts run                     open
              the task: it cannot be opened; all who wait get the error  absent
    open      nobody uses it, and the idle time is over or another
              cluster needs its place, and its controllers are settled   closing
              `close`: the Cluster is deleted; the server stops          closing
    closing   the task: its parts have stopped                           absent

One task for each cluster opens it, waits and closes it, so that a request that is cancelled while
it waits for a cluster does not cancel the work for others. A use counts from before the wait, so
that no cluster closes between its opening and the request.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from typing import TypeAlias

from kapiserver.apiserver.cluster_settings import LogicalClusterSettings
from kapiserver.apiserver.errors import TooManyRequests
from kapiserver.apiserver.metrics import ClusterMetrics
from kapiserver.clusters.cluster_kind import ClusterRecord
from kapiserver.clusters.running_cluster import RunningCluster
from kapiserver.clusters.seats import Seats
from kapiserver.storage.concurrency.background_tasks import BackgroundTasks
from kapiserver.storage.concurrency.clock import Clock, Timer

SETTLE_SECONDS = 1.0
"""How long a cluster that makes room for another one waits for its controllers."""

DRAIN_SECONDS = 5.0
"""How long a cluster that closes waits for requests that execute; watches do not."""

_log = logging.getLogger(__name__)


Open: TypeAlias = Callable[[ClusterRecord], AbstractAsyncContextManager[RunningCluster]]
"""Runs a cluster until the block ends."""

OnRest: TypeAlias = Callable[[ClusterRecord, float | None], Awaitable[None]]
"""Called before a cluster closes, with the time at which its controllers have work next."""


class Use:
    """One use of an open cluster, which does not close before `end`."""

    __slots__ = ("_on_end", "running", "seats")

    def __init__(self, running: RunningCluster, seats: Seats, on_end: Callable[[], None]) -> None:
        self.running = running
        self.seats = seats
        self._on_end: Callable[[], None] | None = on_end

    def end(self) -> None:
        """End the use. Idempotent."""
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end()


class _Place:
    """The place of one cluster among the open ones.

    ready       done when the cluster is open, or cannot be opened
    stop        set when it must close
    reason      why it must close, as in ClusterMetrics
    uses        how many use it, or wait for it
    idle_since  the time at which the last use ended
    """

    def __init__(self, record: ClusterRecord, seats: Seats) -> None:
        self.record = record
        self.seats = seats
        self.ready: asyncio.Future[RunningCluster] = asyncio.get_running_loop().create_future()
        self.stop = asyncio.Event()
        self.reason = ""
        self.uses = 0
        self.idle_since = 0.0
        self.timer: Timer | None = None
        self.task: asyncio.Task[None] | None = None

    def close(self, reason: str) -> None:
        """Let it close, unless it closes already."""
        if not self.stop.is_set():
            self.reason = reason
            self.stop.set()

    @property
    def is_unused(self) -> bool:
        """Whether the cluster is open, and nobody uses it."""
        return not self.uses and not self.stop.is_set() and self.ready.done()

    @property
    def is_idle(self) -> bool:
        """Whether nobody uses the cluster, and its controllers have nothing to do."""
        return self.is_unused and self.ready.result().is_settled


class OpenClusters:
    """The clusters that are open in this process.

    open_cluster    opens one
    on_rest         called before one closes
    settings        how many may be open, when an unused one closes, and the seats of each
    """

    def __init__(
        self,
        open_cluster: Open,
        on_rest: OnRest,
        clock: Clock,
        settings: LogicalClusterSettings,
        metrics: ClusterMetrics,
    ) -> None:
        self._open_cluster = open_cluster
        self._on_rest = on_rest
        self._clock = clock
        self._metrics = metrics
        self._max_open = settings.logical_cluster_max_open
        self._idle_seconds = settings.logical_cluster_idle_timeout
        self._seats = settings.logical_cluster_max_requests_inflight
        self._places: dict[str, _Place] = {}
        """The places, by uid."""
        self._tasks = BackgroundTasks[None]()

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, uid: str) -> bool:
        return uid in self._places

    @property
    def is_settled(self) -> bool:
        """Whether the controllers of all open clusters have nothing to do, and none opens."""
        return all(
            place.ready.done() and place.ready.result().is_settled
            for place in self._places.values()
        )

    async def use(self, record: ClusterRecord) -> Use:
        """Open a cluster unless it is open, and return a use of it. Raises TooManyRequests if all
        places are taken, and the errors of opening."""
        place = await self._place_of(record)
        place.uses += 1
        try:
            running = await asyncio.shield(place.ready)
        except BaseException:
            self._end_use(place)
            raise
        return Use(running, place.seats, lambda: self._end_use(place))

    async def wake(self, record: ClusterRecord) -> None:
        """Open a cluster so that its controllers work. Raises as `use`."""
        use = await self.use(record)
        use.running.start_controllers()
        use.end()

    async def close(self, uid: str, reason: str) -> None:
        """Close a cluster, whatever uses it; return when it is closed. Idempotent. `reason` is one
        of ClusterMetrics."""
        place = self._places.get(uid)
        if place is not None:
            await self._close(place, reason)

    async def close_all(self) -> None:
        """Close all clusters, because the server stops."""
        places = tuple(self._places.values())
        await asyncio.gather(*(self._close(place, "shutdown") for place in places))

    async def _place_of(self, record: ClusterRecord) -> _Place:
        while True:
            place = self._places.get(record.uid)
            if place is not None and not place.stop.is_set():
                return place
            if place is None and len(self._places) < self._max_open:
                return self._open(record)
            if place is not None:  # it closes
                await self._close(place, place.reason)
            else:
                await self._make_room()

    async def _make_room(self) -> None:
        """Close the cluster that has been unused for the longest time, unless it is used meanwhile.
        Its controllers get a moment to end their work. Raises TooManyRequests if all are used."""
        unused = [place for place in self._places.values() if place.is_unused]
        place = min(unused, key=lambda place: place.idle_since, default=None)
        if place is None:
            raise TooManyRequests("too many clusters are in use, please try again later")
        with suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_SECONDS):
                await place.ready.result().wait_settled()
        if place.is_unused or place.stop.is_set():
            await self._close(place, "room")

    def _open(self, record: ClusterRecord) -> _Place:
        place = self._places[record.uid] = _Place(record, Seats(self._seats))
        place.task = self._tasks.start(
            self._run(place), name=f"cluster {record.name}", context=contextvars.Context()
        )
        return place

    async def _run(self, place: _Place) -> None:
        record, started = place.record, time.perf_counter()
        try:
            async with self._open_cluster(record) as running:
                self._metrics.open_seconds.observe("success", time.perf_counter() - started)
                await self._hold_open(place, running)
        except Exception as error:
            if place.ready.done():
                _log.exception("cluster %s has not closed cleanly", record.name)
            else:
                self._metrics.open_seconds.observe("error", time.perf_counter() - started)
                place.ready.set_exception(error)
                place.ready.exception()  # all who waited may have gone
        finally:
            if place.timer is not None:
                place.timer.cancel()
            del self._places[record.uid]

    async def _hold_open(self, place: _Place, running: RunningCluster) -> None:
        """Let requests use a cluster until it must close; then end those that still execute."""
        self._metrics.open += 1
        place.ready.set_result(running)
        await place.stop.wait()
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                await place.seats.close()
        self._metrics.open -= 1
        self._metrics.closes.add(place.reason)
        await self._on_rest(place.record, running.next_due)

    async def _close(self, place: _Place, reason: str) -> None:
        place.close(reason)
        assert place.task is not None
        await asyncio.wait([place.task])

    # Rest.

    def _end_use(self, place: _Place) -> None:
        place.uses -= 1
        if not place.uses:
            place.idle_since = self._clock.now()
            if place.timer is None and not place.stop.is_set():
                self._close_after(place, self._idle_seconds)

    def _close_after(self, place: _Place, seconds: float) -> None:
        place.timer = self._clock.call_later(seconds, lambda: self._close_if_idle(place))

    def _close_if_idle(self, place: _Place) -> None:
        """Close a cluster that has been idle for long enough; else look again when it may be."""
        place.timer = None
        if place.uses or place.stop.is_set():
            return  # the idle time begins again at the end of the last use
        seconds = place.idle_since + self._idle_seconds - self._clock.now()
        if seconds > 0:
            self._close_after(place, seconds)
        elif place.is_idle and not self._has_work_soon(place):
            place.close("idle")
        else:
            self._close_after(place, self._idle_seconds / 10)

    def _has_work_soon(self, place: _Place) -> bool:
        due = place.ready.result().next_due
        return due is not None and due < self._clock.now() + self._idle_seconds
