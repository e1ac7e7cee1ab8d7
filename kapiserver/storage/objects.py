"""The objects of one resource over a store of bytes: what handlers call (bodies follow)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kapiserver.api.group import Resource
from kapiserver.api.types import Tree
from kapiserver.storage.entry import Entry, Form, ObjectKey
from kapiserver.storage.query import (
    Admit,
    Change,
    DeleteQuery,
    Framer,
    Listing,
    ListQuery,
    Preconditions,
    WatchQuery,
    WatchSink,
    Written,
)


class Watching(Protocol):
    """A running watch."""

    def cancel(self) -> None:
        """Write nothing more to the sink; it is not closed. Idempotent."""


class ResourceStore:
    """The objects of one resource.

    Every method raises errors of `storage/errors.py` (ObjectError, Unavailable) and of
    `api/errors.py` (InvalidObject, BadObject); reads also InvalidObject for options that
    exclude each other.
    """

    resource: Resource

    async def get(self, key: ObjectKey, *, resource_version: str = "") -> Entry:
        """One object. Raises NotFound."""
        raise NotImplementedError

    async def list(self, query: ListQuery) -> Listing:
        """One page, or all. Raises Expired, ResourceVersionTooLarge, BadQuery."""
        raise NotImplementedError

    async def watch(self, query: WatchQuery, sink: WatchSink) -> Watching:
        """Begin a watch; frames come at once or later, errors after that as an ERROR frame and
        the sink's end. Raises BadQuery, ResourceVersionTooLarge before the first frame. A
        version that is too old is an ERROR frame, as with kube-apiserver."""
        raise NotImplementedError

    def framer(self, form: Form, status: Callable[[Exception], Tree]) -> Framer:
        """The ordinary framer of a form (json, protobuf, cbor); `status` makes the Status tree
        of an ERROR event."""
        raise NotImplementedError

    async def create(
        self, obj: Tree, *, namespace: str = "", admit: Admit | None = None, dry_run: bool = False
    ) -> Written:
        """Create an object, which the store may change; `namespace` is the request's. Raises
        AlreadyExists."""
        raise NotImplementedError

    async def update(
        self,
        key: ObjectKey,
        change: Change,
        *,
        subresource: str = "",
        preconditions: Preconditions = Preconditions(),
        admit: Admit | None = None,
        dry_run: bool = False,
        may_create: bool = False,
    ) -> Written:
        """Change an object. PUT passes the body's uid as a precondition. `may_create` (apply)
        creates what is not there, as the strategy may too. Raises NotFound, ObjectConflict."""
        raise NotImplementedError

    async def delete(
        self, key: ObjectKey, query: DeleteQuery, *, admit: Admit | None = None
    ) -> Written:
        """Delete an object, or mark it as terminating. Raises NotFound, ObjectConflict."""
        raise NotImplementedError

    async def delete_collection(
        self, listing: ListQuery, query: DeleteQuery, *, admit: Admit | None = None
    ) -> list[Written]:
        """Delete what a list selects, several at a time; those gone meanwhile are left out."""
        raise NotImplementedError
