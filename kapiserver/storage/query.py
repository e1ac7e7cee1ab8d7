"""What is asked of a resource's store, and what it answers: plain data between handlers and store.

Knows no HTTP: names here are those of ListOptions and DeleteOptions, values are already parsed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol, TypeAlias

from kapiserver.api.group import GroupVersion
from kapiserver.api.selectors import EVERYTHING, Selection
from kapiserver.api.types import Tree
from kapiserver.storage.entry import Entry
from kapiserver.storage.kv import Revision

Match: TypeAlias = Literal["", "Exact", "NotOlderThan"]


class ObjectKey(NamedTuple):
    """One object of a resource; the namespace is empty for cluster-scoped ones."""

    namespace: str
    name: str


class Form(NamedTuple):
    """One encoding of an object: in which version, in which medium (json, yaml, protobuf, cbor)."""

    version: GroupVersion
    media: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListQuery:
    """A list: `namespace` empty means all of them. Raw strings are as the client sent them."""

    namespace: str = ""
    selection: Selection = EVERYTHING
    resource_version: str = ""
    match: Match = ""
    limit: int = 0
    continue_token: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """One page: `remaining` is None where it is not known (a selector filters)."""

    entries: Sequence[Entry]
    revision: Revision
    continue_token: str = ""
    remaining: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchQuery:
    """A watch of a namespace, or of all, in one form.

    initial_events  None: as `resource_version` says ("" and "0" begin with the present objects);
                    True or False: sendInitialEvents as the client gave it
    bookmarks       allowWatchBookmarks
    """

    form: Form
    namespace: str = ""
    selection: Selection = EVERYTHING
    resource_version: str = ""
    match: Match = ""
    initial_events: bool | None = None
    bookmarks: bool = False


class WatchSink(Protocol):
    """Where a watch's frames go; called on the event loop, never blocks."""

    def write(self, frames: bytes) -> None:
        """One or more whole frames of the stream."""

    def backlog(self) -> int:
        """Bytes written and not yet taken by the client's connection."""

    def close(self) -> None:
        """Nothing more will be written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preconditions:
    """What must still hold for a delete to happen."""

    uid: str | None = None
    resource_version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteQuery:
    """A delete, as DeleteOptions has it."""

    grace_period_seconds: int | None = None
    propagation_policy: Literal["Orphan", "Background", "Foreground"] | None = None
    preconditions: Preconditions = field(default_factory=Preconditions)
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The outcome of a write: the object as it now is, and what became of it."""

    entry: Entry
    outcome: Literal["created", "updated", "unchanged", "deleted", "terminating"]
    warnings: tuple[str, ...] = ()


Admit: TypeAlias = Callable[[Tree | None, Tree | None], Awaitable[None]]
"""Admission: (new, old) in the hub version; may change `new`, raises to refuse."""

Change: TypeAlias = Callable[[Tree], Tree]
"""What an update does: the current object (a copy, in the hub version) to the wanted one."""
