"""What is asked of a resource's store, and what it answers: plain data between handlers and store.

Knows no HTTP: names here are those of ListOptions and DeleteOptions, values are already parsed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from kapiserver.api.selectors import EVERYTHING, Selection
from kapiserver.api.types import Tree
from kapiserver.storage.entry import Entry
from kapiserver.storage.kv import Revision

EventType: TypeAlias = Literal["ADDED", "MODIFIED", "DELETED"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListQuery:
    """A list: `namespace` empty means all of them. Raw strings are as the client sent them."""

    namespace: str = ""
    selection: Selection = EVERYTHING
    resource_version: str = ""
    match: str = ""
    limit: int = 0
    continue_token: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListResult:
    """One page: `remaining` is None where it is not known (a selector filters)."""

    entries: Sequence[Entry]
    revision: Revision
    continue_token: str = ""
    remaining: int | None = None


class Framer(Protocol):
    """How a watch's events become frames of its stream.

    Framers with equal `identity` write equal frames: each event is framed once for all watches
    that share it. `ResourceStore.framer(form, ...)` makes the ordinary ones; tables bring their
    own.
    """

    @property
    def identity(self) -> Hashable:
        """What frames look like."""

    def event(self, kind: EventType, entry: Entry) -> bytes:
        """One whole frame."""

    def bookmark(self, revision: Revision, *, initial_events_end: bool) -> bytes:
        """A frame that says: everything up to `revision` was sent (annotated with
        `k8s.io/initial-events-end` after the initial events)."""

    def error(self, error: Exception) -> bytes:
        """The frame that ends a stream: an ERROR event with the error's Status."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchQuery:
    """A watch of a namespace, or of all, in one form.

    initial_events  None: as `resource_version` says ("" and "0" begin with the present objects);
                    True or False: sendInitialEvents as the client gave it
    bookmarks       allowWatchBookmarks
    """

    framer: Framer
    namespace: str = ""
    selection: Selection = EVERYTHING
    resource_version: str = ""
    match: str = ""
    continue_token: str = ""
    initial_events: bool | None = None
    bookmarks: bool = False


class WatchSink(Protocol):
    """Where a watch's frames go; called on the event loop, never blocks."""

    def write(self, frames: bytes) -> None:
        """One or more whole frames of the stream."""

    def backlog(self) -> int:
        """Bytes written and not yet taken by the client's connection."""

    async def drained(self) -> None:
        """Return when the backlog is small (at once when it is), or the client has gone."""

    def close(self) -> None:
        """Nothing more will be written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preconditions:
    """What must still hold for a delete to happen."""

    uid: str | None = None
    resource_version: str | None = None


ANY = Preconditions()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteQuery:
    """A delete, as DeleteOptions has it."""

    grace_period_seconds: int | None = None
    propagation_policy: Literal["Orphan", "Background", "Foreground"] | None = None
    preconditions: Preconditions = ANY
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteResult:
    """The outcome of a write: the object as it now is, and what became of it."""

    entry: Entry
    outcome: Literal["created", "updated", "unchanged", "deleted", "terminating"]
    warnings: tuple[str, ...] = ()


Validate: TypeAlias = Callable[[], Awaitable[None]]
"""The second half of an admission: looks at the object once more when it is prepared and keeps to
its kind's rules; must not change it, raises to refuse."""

Admit: TypeAlias = Callable[[Tree | None, Tree | None], Awaitable[Validate | None]]
"""Admission: (new, old) in the hub version; may change `new`, must not change `old` (it is
shared), raises to refuse. `new` is None on delete, `old` on create."""

Reserve: TypeAlias = Callable[[Tree | None, Tree | None, bool], AbstractAsyncContextManager[None]]
"""What a kind holds outside of its objects (addresses, ports): (new, old, is it a dry run), `new`
None on removal. Entered before the object is prepared, and may change it; left when it is written.
Leaving with an error gives back what was taken, leaving without gives back what is not held any
more."""

UpdateFunc: TypeAlias = Callable[[Tree | None], Tree]
"""What an update does: the current object (a copy, in the hub version) to the wanted one. None:
there is no such object and the update may create it. Called again when the object moved on. May
raise FetchRequired where there is one."""


class FetchRequired(Exception):
    """A change wants something first that takes a while: it is called again after `fetch`."""

    def __init__(self, fetch: Callable[[], Awaitable[None]]) -> None:
        super().__init__()
        self.fetch = fetch
