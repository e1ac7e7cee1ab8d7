"""Holds back what an operator's instances see: the events of watches, and the requests of a paused
instance; and shows a restarted instance an earlier revision.

The sinks of watches are those of `testing/faults`, which hold frames back.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from msgspec import Struct

from kapiserver.apiserver.context import Server
from kapiserver.apiserver.request import Request as HttpRequest
from kapiserver.apiserver.response import AnyResponse
from kapiserver.storage.cache.query import WatchSink
from kapiserver.testing.faults.held_sink import HeldSink
from kapiserver.testing.faults.stale_reads import stale_response

STALE_READS = ("get", "list")
MEETING_SECONDS = 1.5
"""Time for which the first write of an instance waits for one of another instance."""


class _OpenWatch(Struct, frozen=True, eq=False):
    instance: int
    resource: str
    sink: HeldSink


class StaleView(Struct, frozen=True):
    """What instances from `first_instance` on see until the view ends: lists that accept any
    revision are of `revision`, and their watches get no events.

    every_read  gets and lists that ask for the newest revision are old, too
    """

    revision: int
    first_instance: int
    every_read: bool


class Meeting:
    """Lets the first writes of two instances pass together, so that neither has seen that of the
    other."""

    def __init__(self) -> None:
        self._writers: set[int] = set()
        self._has_met = asyncio.Event()

    async def meet(self, instance: int) -> None:
        """Return when another instance writes, too, or after MEETING_SECONDS."""
        if self._has_met.is_set():
            return
        self._writers.add(instance)
        if len(self._writers) > 1:
            self._has_met.set()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._has_met.wait(), MEETING_SECONDS)
        self._has_met.set()


class Gates:
    """The gates of one run, all of them open at the beginning."""

    def __init__(self) -> None:
        self._watches: list[_OpenWatch] = []
        self._held: set[str] = set()
        self._paused: dict[int, asyncio.Event] = {}
        self._view: StaleView | None = None

    # Watches.

    @property
    def backlog(self) -> bool:
        """Whether events are on their way to the operator."""
        return any(watch.sink.backlog() for watch in self._watches)

    def hold(self, resource: str) -> None:
        """Hold the events of a resource back, in watches that are open and in new ones."""
        self._held.add(resource)
        self._update()

    def release(self, resource: str) -> None:
        """Deliver the events of a resource that were held back."""
        self._held.discard(resource)
        self._update()

    def discard(self, resource: str) -> None:
        """Forget the events of a resource that were held back, and hold back no more."""
        for watch in self._watches:
            if watch.resource == resource:
                watch.sink.discard()
        self._held.discard(resource)

    def _update(self) -> None:
        for watch in self._watches:
            if self._must_hold(watch):
                watch.sink.hold()
            else:
                watch.sink.release()

    def _must_hold(self, watch: _OpenWatch) -> bool:
        is_stale = self._view is not None and watch.instance >= self._view.first_instance
        return watch.resource in self._held or watch.instance in self._paused or is_stale

    # Instances.

    def pause(self, instance: int) -> None:
        """Hold the requests and events of an instance back."""
        self._paused[instance] = asyncio.Event()
        self._update()

    def resume(self, instance: int) -> None:
        """Let the requests and events of an instance pass."""
        event = self._paused.pop(instance, None)
        if event is not None:
            event.set()
        self._update()

    def show(self, view: StaleView | None) -> None:
        """Show new instances an earlier revision; None shows all the present one."""
        self._view = view
        self._update()

    # Around requests.

    async def before(
        self, server: Server, http: HttpRequest, instance: int, resource: str
    ) -> AnyResponse | None:
        """Wait until a request may pass. Return a stale response, if the view has one."""
        if instance in self._paused:
            await self._paused[instance].wait()
        view = self._view
        if http.info.verb == "watch":
            opened = http.open_sink
            http.open_sink = lambda: self._open(opened, instance, resource, http)
        elif view is not None and instance >= view.first_instance:
            accepts_any = http.parameter("resourceVersion") == "0"
            if http.info.verb in STALE_READS and (view.every_read or accepts_any):
                return await stale_response(server, http, view.revision)
        return None

    def _open(
        self, opened: Callable[[], WatchSink], instance: int, resource: str, http: HttpRequest
    ) -> WatchSink:
        sink = opened()
        assert isinstance(sink, HeldSink)
        watch = _OpenWatch(instance, resource, sink)
        self._watches.append(watch)
        http.on_complete(lambda _: self._watches.remove(watch))
        if self._must_hold(watch):
            sink.hold()
        return sink
