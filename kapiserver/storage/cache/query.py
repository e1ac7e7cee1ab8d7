"""Requests to a resource's store and their results: plain data between handlers and store.

Knows no HTTP. Names are those of ListOptions and DeleteOptions; values are already parsed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from kapiserver.api.group import GroupVersion
from kapiserver.api.selectors import EVERYTHING, Selection
from kapiserver.api.types import Tree
from kapiserver.storage.cache.entry import Entry
from kapiserver.storage.kv.contract import Revision

EventType: TypeAlias = Literal["ADDED", "MODIFIED", "DELETED"]


class ListQuery(Struct, frozen=True, kw_only=True):
    """A list request. An empty `namespace` means all namespaces. Strings are as the client sent
    them."""

    namespace: str = ""
    selection: Selection = EVERYTHING
    resource_version: str = ""
    match: str = ""
    limit: int = 0
    continue_token: str = ""


class ListResult(Struct, frozen=True, kw_only=True):
    """A list or one page of it. `remaining` is None if a selector makes it unknown."""

    entries: Sequence[Entry]
    revision: Revision
    continue_token: str = ""
    remaining: int | None = None


class Framer(Protocol):
    """Encodes the events of a watch into frames of its stream.

    Framers with equal `identity` write equal frames, so each event is encoded once for all watches
    that share one. `ResourceStore.framer(encoding, ...)` returns the framers of whole objects;
    tables have their own.
    """

    @property
    def identity(self) -> Hashable:
        """Identifies the encoding of the frames."""

    @property
    def version(self) -> GroupVersion:
        """The version of the resource that the client watches."""

    def is_slow(self, entry: Entry) -> bool:
        """Whether `prepare` is to run before `event`."""

    async def prepare(self, entry: Entry) -> None:
        """Do the long work for the frames of an object in a thread."""

    def event(self, kind: EventType, entry: Entry) -> bytes:
        """Return the frame of one event."""

    def bookmark(self, revision: Revision, *, initial_events_end: bool) -> bytes:
        """Return the frame of a bookmark: all events up to `revision` were sent. The bookmark after
        the initial events is annotated with `k8s.io/initial-events-end`."""

    def error(self, error: Exception) -> bytes:
        """Return the frame of an ERROR event with the error's Status, the last of a stream."""


class WatchQuery(Struct, frozen=True, kw_only=True):
    """A watch request for one namespace or all.

    initial_events  sendInitialEvents, None if not given: then a `resource_version` of "" or "0"
                    starts with the current objects
    bookmarks       allowWatchBookmarks
    """

    namespace: str = ""
    selection: Selection = EVERYTHING
    resource_version: str = ""
    match: str = ""
    continue_token: str = ""
    initial_events: bool | None = None
    bookmarks: bool = False


class WatchSink(Protocol):
    """Writes the frames of a watch to its client. Called on the event loop, never blocks."""

    def write(self, frames: bytes) -> int:
        """Write one or more whole frames, and return the backlog with them."""

    def backlog(self) -> int:
        """Return the bytes written and not yet taken by the client's connection."""

    async def wait_drained(self) -> None:
        """Wait until the backlog is small, or the client has disconnected."""

    def close(self) -> None:
        """End the stream, after its backlog is written."""

    def abort(self) -> None:
        """End the stream at once and drop its backlog."""


class Preconditions(Struct, frozen=True, kw_only=True):
    """Preconditions of an update or delete; None accepts any value."""

    uid: str | None = None
    resource_version: str | None = None


ANY = Preconditions()


class DeleteQuery(Struct, frozen=True, kw_only=True):
    """A delete request, as in DeleteOptions."""

    grace_period_seconds: int | None = None
    propagation_policy: Literal["Orphan", "Background", "Foreground"] | None = None
    preconditions: Preconditions = ANY
    dry_run: bool = False


class WriteResult(Struct, frozen=True, kw_only=True):
    """The result of a write: the object after it, and the outcome."""

    entry: Entry
    outcome: Literal["created", "updated", "unchanged", "deleted", "terminating"]
    warnings: tuple[str, ...] = ()


Validate: TypeAlias = Callable[[], Awaitable[None]]
"""Validating admission: checks the object after the strategy prepared and validated it. Must not
change the object; raises to reject it."""


async def _accept() -> None:
    """Reject nothing."""


class Admission(Struct, frozen=True, kw_only=True):
    """The result of mutating admission.

    validate     the validating half
    has_changed  whether a webhook or a policy changed the object, which may be large now
    """

    validate: Validate = _accept
    has_changed: bool = False


ADMITTED = Admission()
"""The admission of an object that nobody changes or rejects."""

Admit: TypeAlias = Callable[[Tree | None, Tree | None], Awaitable[Admission]]
"""Mutating admission of (new, old) in the hub version. May change `new`, must not change `old` (it
is shared), raises to reject. `new` is None on delete, `old` on create."""

Reserve: TypeAlias = Callable[[Tree | None, Tree | None, bool], AbstractAsyncContextManager[None]]
"""Allocates the addresses and ports of a service: (new, old, dry_run), `new` None on removal. The
context is entered before the object is prepared, and may change it; it exits after the write. After
an error it releases the new allocations, else those that the object no longer uses."""


class Write(Struct, frozen=True, kw_only=True):
    """How the store creates or updates an object. A delete has its DeleteQuery instead.

    admit           the admission chain; None writes without admission
    dry_run         do all but the write
    cost            the cost of processing the body or patch (`codecs/cost.py`)

    The others concern updates only:

    subresource     the subresource whose strategy prepares the object; "" for the object itself
    preconditions   what the current object must have; PUT passes the uid of the body
    may_create      call the update function with None to create a missing object (apply, and PUT of
                    some kinds)
    reads_only      the update function neither changes the current object nor returns a part of it
                    that is changed later: it gets no copy
    conditional     the update names a resourceVersion: it takes no turn, because the writers before
                    it would make it fail
    """

    admit: Admit | None = None
    dry_run: bool = False
    cost: int = 0
    subresource: str = ""
    preconditions: Preconditions = ANY
    may_create: bool = False
    reads_only: bool = False
    conditional: bool = False


DEFAULT_WRITE = Write()

UpdateFunc: TypeAlias = Callable[[Tree | None], Tree]
"""Returns the updated object for a copy of the current one, in the hub version (the current one
itself if the function only reads it), or for None if the update may create the object. Called again
after a conflict, as in etcd3's GuaranteedUpdate. May raise FetchRequired if there is a current
object."""


class FetchRequired(Exception):
    """An update function needs data first: it is called again after `fetch`."""

    def __init__(self, fetch: Callable[[], Awaitable[None]]) -> None:
        super().__init__()
        self.fetch = fetch
