"""Writes events about objects, as `kubectl describe` shows them.

A reconcile does not wait for the write of an event: a queue holds the events, and a task writes
them in order while there are some. `event_correlation` decides which are written. Mirrors
EventRecorder of client-go's tools/record.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import zlib
from collections import deque
from typing import NamedTuple, Protocol

from kapiserver.api.accessors import name_of, namespace_of, resource_version_of, uid_of
from kapiserver.api.resource_client import ResourceClient, StatusError
from kapiserver.api.types import Tree
from kapiserver.controllers.loop.background_work import BackgroundWork
from kapiserver.controllers.loop.event_correlation import (
    EventCorrelator,
    ObservedEvent,
    Occurrences,
)
from kapiserver.storage.concurrency.background_tasks import BackgroundTasks
from kapiserver.storage.concurrency.clock import Clock
from kapiserver.storage.errors import StorageError
from kapiserver.storage.objects.lifecycle import timestamp

_CLUSTER_SCOPED_NAMESPACE = "default"
"""The namespace of events about cluster-scoped objects."""
_MAX_QUEUED = 1000
_MAX_PREFIX = 200
_NANOSECONDS = 1_000_000
"""Nanoseconds in a millisecond."""
_MAX_NAMES = 1000
"""How many names are tried for an event. A clock that stands still makes the same name again."""

_IDENTITY = ("kind", "apiVersion", "namespace", "name", "uid", "fieldPath")

_log = logging.getLogger(__name__)


class _QueuedEvent(NamedTuple):
    involved: Tree
    type: str
    reason: str
    message: str
    seconds: float
    host: str


class RecorderContext(Protocol):
    """What a recorder needs of the context of its controller.

    background  work that the controller waits for and stops
    """

    @property
    def clock(self) -> Clock: ...

    @property
    def background(self) -> list[BackgroundWork]: ...

    def resource(self, version: str, name: str, *, namespace: str = "") -> ResourceClient:
        """Return the controller's client of a resource."""


class EventRecorder:
    """Writes the events of one controller, which waits for it to be settled, and stops it."""

    def __init__(self, context: RecorderContext, component: str) -> None:
        self._context = context
        self._component = component
        # The nanoseconds of a millisecond, so that recorders that report on one object while the
        # clock stands still do not compete for names: each run makes the same ones.
        self._offset = zlib.crc32(component.encode()) % _NANOSECONDS
        self._correlator = EventCorrelator()
        self._queue: deque[_QueuedEvent] = deque()
        self._tasks = BackgroundTasks[None]()
        context.background.append(self)

    @property
    def queued(self) -> int:
        """How many events wait to be written."""
        return len(self._queue)

    async def warn(self, obj: Tree, reason: str, message: str) -> None:
        """Queue a warning about an object; waits only while the queue is full. An event that cannot
        be written is dropped: it is not a reason to stop."""
        await self.report(obj, "Warning", reason, message)

    async def note(self, obj: Tree, reason: str, message: str) -> None:
        """Queue an event of the type Normal, as `warn` does."""
        await self.report(obj, "Normal", reason, message)

    async def report(
        self,
        obj: Tree,
        type_: str,
        reason: str,
        message: str,
        *,
        field_path: str = "",
        host: str = "",
    ) -> None:
        """Queue an event of a type, as `warn` does. `field_path` names the part of the object that
        it is about, such as a container, and `host` the node that reports it."""
        if len(self._queue) >= _MAX_QUEUED:
            await self.wait_idle()
        involved = {
            "kind": obj.get("kind"),
            "apiVersion": obj.get("apiVersion"),
            "namespace": namespace_of(obj),
            "name": name_of(obj),
            "uid": uid_of(obj),
            "resourceVersion": resource_version_of(obj),
        }
        if field_path:
            involved["fieldPath"] = field_path
        now = self._context.clock.now()
        self._queue.append(_QueuedEvent(involved, type_, reason, message, now, host))
        if not self._tasks:
            # An empty context: the writes do not count towards the request that led to the event.
            self._tasks.start(self._run(), context=contextvars.Context())

    @property
    def is_idle(self) -> bool:
        """Whether all events are written."""
        return not self._tasks

    async def wait_idle(self) -> None:
        """Wait until all events are written."""
        while self._tasks:
            await asyncio.wait(tuple(self._tasks))

    async def stop(self) -> None:
        """Drop the events that are not yet written."""
        self._queue.clear()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self) -> None:
        while self._queue:
            event = self._queue.popleft()
            involved = event.involved
            identity = tuple(involved.get(name) or "" for name in _IDENTITY)
            observed = ObservedEvent(identity, event.type, event.reason, event.message)
            occurrences = self._correlator.correlate(observed, event.seconds)
            try:
                if occurrences is not None:
                    await self._write(event, occurrences)
            except (StatusError, StorageError) as error:
                _log.debug("%s: an event is dropped: %s", self._component, error)
            except Exception:  # an error of one event must not keep the others
                _log.exception("%s: an event is dropped", self._component)
        # Here rather than in the done callback: an event that is added between the two would find
        # this task, and wait for ever.
        self._tasks.clear()

    async def _write(self, event: _QueuedEvent, occurrences: Occurrences) -> None:
        namespace = event.involved["namespace"] or _CLUSTER_SCOPED_NAMESPACE
        events = self._context.resource("v1", "events", namespace=namespace)
        if occurrences.name:
            changes = {
                "count": occurrences.count,
                "lastTimestamp": timestamp(event.seconds),
                "message": occurrences.message,
            }
            try:
                await events.patch(occurrences.name, changes)
                return
            except StatusError as error:
                if error.reason != "NotFound":  # it may have expired
                    raise
        occurrences.name = await self._create(events, self._new_event(event, occurrences), event)

    async def _create(self, events: ResourceClient, new: Tree, event: _QueuedEvent) -> str:
        """Create an event and return its name: that of its object, and the time in nanoseconds or,
        if there is such an event, the first free number after it. Raises StatusError."""
        prefix = event.involved["name"][:_MAX_PREFIX]
        number = int(event.seconds * 1000) * _NANOSECONDS + self._offset
        for attempt in range(_MAX_NAMES):
            name = f"{prefix}.{number + attempt:x}"
            try:
                await events.create(new | {"metadata": new["metadata"] | {"name": name}})
                return name
            except StatusError as error:
                if error.reason != "AlreadyExists":
                    raise
        return ""

    def _new_event(self, event: _QueuedEvent, occurrences: Occurrences) -> Tree:
        involved = event.involved
        return {
            "kind": "Event",
            "apiVersion": "v1",
            "metadata": {"namespace": involved["namespace"] or _CLUSTER_SCOPED_NAMESPACE},
            "involvedObject": involved,
            "type": event.type,
            "reason": event.reason,
            "message": occurrences.message,
            "source": {"component": self._component} | ({"host": event.host} if event.host else {}),
            "reportingComponent": self._component,
            "reportingInstance": event.host,
            "count": occurrences.count,
            "firstTimestamp": timestamp(occurrences.first),
            "lastTimestamp": timestamp(event.seconds),
        }
