"""What happened in one run: requests, commits of objects, watches and steps, in one order.

Records only; `tracer.py` fills them while a run goes on. Positions count everything that happened.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct, field

from kapiserver.api.types import Tree

OPERATOR, WORKLOAD, SERVER, OTHER = "the operator", "the workload", "the server", "another writer"
"""Who sends a request or commits a write. The server's controllers are the server."""

OTHER_ANNOTATION = "explore.kapiserver.dev/other-writer"
"""What another writer sets, and must survive."""
WRITE_VERBS = frozenset({"create", "update", "patch", "delete", "deletecollection"})
UNRECORDED = frozenset({"events", "events.events.k8s.io"})
"""Resources whose objects are notes, not state."""
MADE_BY_SERVER = ("apiregistration.k8s.io", "flowcontrol.apiserver.k8s.io")
"""Groups whose objects a server makes some time after its start."""
LEASES = "leases.coordination.k8s.io"
NO_STATE = frozenset({"", LEASES, *UNRECORDED})
"""Resources of requests that are neither compared nor interfered with; "" are other paths."""


class ObjectRef(Struct, frozen=True, order=True):
    """An object: its plural resource with the group, its namespace and its name."""

    resource: str
    namespace: str
    name: str

    def __str__(self) -> str:
        path = "/".join(part for part in (self.namespace, self.name) if part)
        return f"{self.resource} {path}".rstrip()


class Request(Struct, kw_only=True, eq=False):
    """One request of a client.

    position    when it came
    instance    the number of the operator's instance that sent it, from 1; 0 for others
    status      None while there is no response; 0 if the connection was dropped
    injected    what was done to it by a plan, or ""
    commits     positions of the commits that it made
    digest      equal for requests with equal bodies
    """

    position: int
    actor: str
    instance: int = 0
    verb: str
    object: ObjectRef
    subresource: str = ""
    uri: str = ""
    status: int | None = None
    injected: str = ""
    commits: list[int] = field(default_factory=list)
    digest: int = 0

    @property
    def is_write(self) -> bool:
        """Whether its verb writes objects, other than Events."""
        return self.verb in WRITE_VERBS and self.object.resource not in UNRECORDED

    def __str__(self) -> str:
        resource, _, path = str(self.object).partition(" ")
        subresource = f"/{self.subresource}" if self.subresource else ""
        return f"{self.verb} {resource}{subresource} {path}".rstrip()


class Commit(Struct, kw_only=True, eq=False):
    """One write of one object that the store has.

    actor       who sent the request; SERVER for controllers
    request     the position of the request, None for writes without one
    operation   created, updated or deleted
    old, new    the object before and after, None if there was none
    """

    position: int
    revision: int
    actor: str
    request: int | None
    object: ObjectRef
    operation: str
    old: Tree | None
    new: Tree | None

    @property
    def metadata(self) -> Tree:
        """The metadata after the write, or before a deletion."""
        metadata: Tree = (self.new or self.old or {}).get("metadata") or {}
        return metadata

    def __str__(self) -> str:
        return f"{self.object} {self.operation}"


class OpenedWatch(Struct, frozen=True):
    """A watch of the operator: all events of its resource after `position` are its events."""

    position: int
    resource: str
    namespace: str


class Mark(Struct, frozen=True):
    """The start of a step, or something that a plan did; `step` is the step's index, or None."""

    position: int
    text: str
    step: int | None = None


class Exit(Struct, frozen=True):
    """An exit of the operator that nobody asked for."""

    position: int
    status: int


class History(Struct, kw_only=True, eq=False):
    """One run.

    forbidden   requests of the operator that authorization refused; they are not in `requests`
    final       the normalised objects at the end, by their reference
    output      what the operator wrote
    varied      the objects after a variation, None without one
    idle_requests   the numbers of the operator's requests in the parts of an hour without changes
    unreached   why the workload did not reach its end, or ""
    refused     whether that is because the server refused a step
    settled     whether the operator settled at the end
    """

    requests: Sequence[Request] = ()
    commits: Sequence[Commit] = ()
    watches: Sequence[OpenedWatch] = ()
    marks: Sequence[Mark] = ()
    exits: Sequence[Exit] = ()
    forbidden: Sequence[Request] = ()
    final: dict[ObjectRef, Tree] = field(default_factory=dict)
    output: str = ""
    varied: dict[ObjectRef, Tree] | None = None
    idle_requests: Sequence[int] = ()
    unreached: str = ""
    refused: bool = False
    settled: bool = True

    @property
    def operator_requests(self) -> Iterator[Request]:
        """The requests of the operator for objects, without those for Leases and Events."""
        for request in self.requests:
            if request.actor == OPERATOR and request.object.resource not in NO_STATE:
                yield request

    @property
    def operator_writes(self) -> Iterator[Request]:
        """Those of the operator's requests that write."""
        return (request for request in self.operator_requests if request.is_write)

    def is_watched(self, commit: Commit) -> bool:
        """Whether the operator has a watch that shows a commit."""
        return any(
            watch.position < commit.position
            and watch.resource == commit.object.resource
            and watch.namespace in ("", commit.object.namespace)
            for watch in self.watches
        )
