"""Records a run while it goes on: the requests of clients and the commits of the store, in order.

The store's watch gives the commits of a write before its request has its response, so a commit
belongs to the request of its key that is open. What the workload writes comes without HTTP: the
session says which objects it is about to write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from zlib import crc32

from msgspec import Struct

from kapiserver.api.types import Tree
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.endpoints.tables import in_version
from kapiserver.apiserver.request import Request as HttpRequest
from kapiserver.exploring.history import (
    LEASES,
    MADE_BY_SERVER,
    NO_STATE,
    OPERATOR,
    OTHER,
    SERVER,
    UNRECORDED,
    WORKLOAD,
    Commit,
    Exit,
    History,
    Mark,
    ObjectRef,
    OpenedWatch,
    Request,
)
from kapiserver.storage.cache.entry import Entry
from kapiserver.storage.errors import Corrupt
from kapiserver.storage.kv.contract import EventSink, KVEvent, Revision
from kapiserver.testing.state.kinds import preferred_version

MAX_RECORDS = 200_000
"""Requests and commits of one run; the run ends as one that does not settle when it has more."""


class Sender(Struct, frozen=True):
    """Who sends a request, and the number of the operator's instance, 0 for others."""

    actor: str
    instance: int


class _StoredEvent(Struct, frozen=True, eq=False):
    """A commit whose objects are not decoded yet, with the fields of Commit."""

    position: int
    event: KVEvent
    object: ObjectRef
    operation: str
    actor: str
    request: int | None


class Trace(Struct, frozen=True, eq=False):
    """What a tracer has recorded so far; a later run can go on from it."""

    position: int = 0
    requests: tuple[Request, ...] = ()
    commits: tuple[Commit, ...] = ()
    watches: tuple[OpenedWatch, ...] = ()
    marks: tuple[Mark, ...] = ()


class Tracer(EventSink):
    """The record of one run of one server; used on the server's loop."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._loop = asyncio.get_running_loop()
        self.revision = 0
        """The revision of the newest commit."""
        self.longest_rest = 0.0
        """The longest time for which an operator waited and then went on, in one step."""
        self.begin()

    def begin(self, earlier: Trace = Trace()) -> None:  # noqa: B008 - frozen
        """Forget everything, for a new run; `earlier` is what happened in it before."""
        self._position = earlier.position
        self._requests = list(earlier.requests)
        self._open: dict[int, Request] = {}
        self._commits = list(earlier.commits)
        self._events: list[_StoredEvent] = []
        """The commits behind those of `_commits`, which are not decoded yet."""
        self._trees: dict[str, Tree | None] = {}
        """The newest decoded objects, by their keys."""
        self._watches = list(earlier.watches)
        self._marks = list(earlier.marks)
        self._exits: list[Exit] = []
        self._begun_at = earlier.position
        self._operator_writes = 0
        self._since_commit: set[tuple[object, ...]] = set()
        self.workload_objects: set[ObjectRef] = set()
        """The objects that the workload writes at present."""
        self.other_objects: set[ObjectRef] = set()
        """The objects that a plan writes at present."""
        self.activity = 0
        """How often something has happened after which a run must settle again."""
        self.last_activity = self._loop.time()
        self.rested = 0.0
        """Seconds of the operator's time for which it has waited since the last activity."""

    def trace(self) -> Trace:
        """Return what was recorded so far."""
        return Trace(
            self._position,
            tuple(self._requests),
            tuple(self._decoded_commits()),
            tuple(self._watches),
            tuple(self._marks),
        )

    def next_position(self) -> int:
        """Return the position of what happens now."""
        self._position += 1
        return self._position

    @property
    def is_full(self) -> bool:
        """Whether the run has made more records than a run may."""
        return self._position > MAX_RECORDS

    @property
    def open_requests(self) -> int:
        """The requests of the operator that have no response yet."""
        return sum(request.actor == OPERATOR for request in self._open.values())

    @property
    def operator_requests(self) -> int:
        """The requests that the operator has sent, without those for Leases and Events."""
        return sum(
            request.actor == OPERATOR and request.object.resource not in NO_STATE
            for request in self._requests
        )

    @property
    def operator_writes(self) -> int:
        """The requests of the operator in this run that write, Leases left out."""
        return self._operator_writes

    def has_started(self, instance: int, watches: int) -> bool:
        """Whether an instance has sent a request and opened this many watches."""
        requests = [
            request
            for request in self._requests
            if request.instance == instance and request.position > self._begun_at
        ]
        return bool(requests) and watches <= sum(item.verb == "watch" for item in requests)

    def has_lease(self, instance: int) -> bool:
        """Whether an instance has written a Lease."""
        return any(
            request.instance == instance and request.object.resource == LEASES and request.commits
            for request in self._requests
        )

    def mark(self, text: str, step: int | None = None) -> None:
        """Record the start of a step, or what a plan does."""
        self._marks.append(Mark(self.next_position(), text, step))
        self._touch(WORKLOAD)

    def record_exit(self, status: int) -> None:
        """Record that the operator has ended."""
        self._exits.append(Exit(self.next_position(), status))
        self._touch(OPERATOR)

    # Requests.

    def open_request(self, http: HttpRequest, sender: Sender, name: str, body: bytes) -> Request:
        """Record a request that has come."""
        info = http.info
        group = info.version.group
        resource = f"{info.resource}.{group}" if group and info.resource else info.resource
        request = Request(
            position=self.next_position(),
            actor=sender.actor,
            instance=sender.instance,
            verb=info.verb,
            object=ObjectRef(resource, info.namespace, name),
            subresource=info.subresource,
            uri=http.uri or http.path,
            digest=crc32(body),
        )
        self._requests.append(request)
        self._open[id(http)] = request
        if info.verb == "watch" and sender.instance:
            self._watches.append(OpenedWatch(request.position, resource, info.namespace))
        if request.is_write and sender.instance and resource != LEASES:
            self._operator_writes += 1
        self._note_activity(request)
        return request

    def _note_activity(self, request: Request) -> None:
        """Count a request as activity unless it is the same as one since the last commit: a client
        that polls would never be quiet."""
        key = (request.instance, request.verb, request.uri, request.digest)
        if request.object.resource in UNRECORDED or request.object.resource == LEASES:
            return
        if key not in self._since_commit:
            self._since_commit.add(key)
            self._touch(request.actor)

    def _touch(self, actor: str) -> None:
        if actor != WORKLOAD and self._marks:
            self.longest_rest = max(self.longest_rest, self.rested)
        self.rested = 0.0
        self.activity += 1
        self.last_activity = self._loop.time()

    def request_of(self, http: HttpRequest) -> Request | None:
        """Return the record of a request that has no response yet."""
        return self._open.get(id(http))

    def begin_watch(self, http: HttpRequest) -> None:
        """Record that a watch has its response, which goes on."""
        self._open.pop(id(http), None)

    def close_request(self, http: HttpRequest, status: int) -> None:
        """Record the response to a request, 0 for none."""
        request = self._open.pop(id(http), None)
        if request is not None:
            request.status = status

    # Commits.

    def on_events(self, batch: Sequence[KVEvent]) -> None:
        """Record commits of the store."""
        for event in batch:
            self.revision = event.revision
            reference = self._reference(event.key)
            if reference is None:
                continue
            actor, request = self._author(reference)
            if actor == SERVER and reference.resource.endswith(MADE_BY_SERVER):
                continue
            operation = _operation(event)
            position = self.next_position()
            if request is not None:
                request.commits.append(position)
            number = None if request is None else request.position
            self._events.append(_StoredEvent(position, event, reference, operation, actor, number))
            if reference.resource != LEASES:
                self._since_commit.clear()
                self._touch(actor)

    def on_progress(self, revision: Revision) -> None:
        """Ignore progress."""

    def on_closed(self, error: Exception | None) -> None:
        """Keep what was recorded."""

    def is_lease(self, key: str) -> bool:
        """Whether the object of a key is a Lease."""
        reference = self._reference(key)
        return reference is not None and reference.resource == LEASES

    def _reference(self, key: str) -> ObjectRef | None:
        """Return the object of a key; None for keys without an object and for Events."""
        server = self.server
        resource = server.scheme.resource_at(key[len(server.config.store.key_root) + 1 :])
        if resource is None or resource.qualified_name in UNRECORDED:
            return None
        object_key = server.stores.get(resource).codec.key(key)
        return ObjectRef(resource.qualified_name, object_key.namespace, object_key.name)

    def _author(self, reference: ObjectRef) -> tuple[str, Request | None]:
        if reference in self.workload_objects:
            return WORKLOAD, None
        if reference in self.other_objects:
            return OTHER, None
        writers = [
            request
            for request in self._open.values()
            if request.is_write and _is_about(request, reference)
        ]
        if not writers:
            return SERVER, None
        # Two instances may create objects of one resource at the same time.
        writer = next((request for request in writers if not request.commits), writers[0])
        return writer.actor, writer

    # The result.

    def created_objects(self) -> frozenset[ObjectRef]:
        """Return the objects that were created in this run and are still there, Leases left out."""
        objects: set[ObjectRef] = set()
        commits: Sequence[Commit | _StoredEvent] = (*self._commits, *self._events)
        for commit in commits:
            if commit.operation == "created" and commit.object.resource not in NO_STATE:
                objects.add(commit.object)
            elif commit.operation == "deleted":
                objects.discard(commit.object)
        return frozenset(objects)

    def history(self) -> History:
        """Return what was recorded."""
        return History(
            requests=tuple(self._requests),
            commits=tuple(self._decoded_commits()),
            watches=tuple(self._watches),
            marks=tuple(self._marks),
            exits=tuple(self._exits),
        )

    def _decoded_commits(self) -> list[Commit]:
        """Return all commits. Each is decoded once, those before a checkpoint once for all runs."""
        for item in self._events:
            event = item.event
            old = self._trees.get(event.key) or self._tree(event.key, event.previous)
            self._trees[event.key] = new = self._tree(event.key, event.value)
            self._commits.append(
                Commit(
                    position=item.position,
                    revision=event.revision,
                    actor=item.actor,
                    request=item.request,
                    object=item.object,
                    operation=item.operation,
                    old=old,
                    new=new,
                )
            )
        self._events.clear()
        return self._commits

    def _tree(self, key: str, value: bytes | None) -> Tree | None:
        server = self.server
        resource = server.scheme.resource_at(key[len(server.config.store.key_root) + 1 :])
        if value is None or resource is None:
            return None
        codec = server.stores.get(resource).codec
        try:
            tree = codec.tree(Entry(codec, key, value, Revision(0)))
        except Corrupt:
            return None
        return in_version(server.scheme, tree, preferred_version(resource))


def _operation(event: KVEvent) -> str:
    if event.value is None:
        return "deleted"
    return "created" if event.previous is None else "updated"


def _is_about(request: Request, reference: ObjectRef) -> bool:
    target = request.object
    return (
        target.resource == reference.resource
        and target.namespace in ("", reference.namespace)
        and target.name in ("", reference.name)
    )
