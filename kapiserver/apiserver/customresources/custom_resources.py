"""Which custom kinds are served: follows the CustomResourceDefinitions and tells the scheme.

Whatever changes a definition is here before the write that did it is acknowledged, where the store
is this process's own; where it is not, `look_up` asks it once more before a path is unknown. Who
writes the status of definitions is the controller's concern. Mirrors
customresource_handler.go of k8s.io/apiextensions-apiserver.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable, Mapping, Sequence, Set
from typing import TYPE_CHECKING

from kapiserver.api.accessors import value_at
from kapiserver.api.custom_kinds import Definition
from kapiserver.api.group import GroupVersion
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import Tree
from kapiserver.storage.entry import Entry, ObjectKey
from kapiserver.storage.errors import Corrupt, NotFound, StorageError
from kapiserver.storage.informer import ObjectChange, Subscription
from kapiserver.storage.object_store import ResourceStore
from kapiserver.storage.store_registry import StoreRegistry

if TYPE_CHECKING:
    from kapiserver.apiserver.customresources.converted_objects import ConvertedObjects
    from kapiserver.codecs.protobuf_messages import MessageDecoder

APIEXTENSIONS = GroupVersion("apiextensions.k8s.io", "v1")

_log = logging.getLogger(__name__)


class CustomResources:
    """Keeps `Scheme.custom` and the stores of custom objects as the definitions say.

    heads       every definition, established or not, by name; schemas left out
    followers   called with the names of definitions that changed, after they did
    """

    def __init__(self, scheme: Scheme, stores: StoreRegistry) -> None:
        self.heads: dict[str, Tree] = {}
        self.followers: list[Callable[[Sequence[str]], None]] = []
        self._scheme = scheme
        self._stores = stores
        self._subscription: Subscription | None = None
        self._removing: set[asyncio.Task[None]] = set()
        self._leaving: set[str] = set()
        """Kinds that are forgotten as soon as their watches have told what they know."""

    @functools.cached_property
    def store(self) -> ResourceStore:
        """The definitions."""
        return self._stores.by_name(APIEXTENSIONS, "customresourcedefinitions")

    @functools.cached_property
    def converted(self) -> ConvertedObjects:
        """Objects as webhooks convert them."""
        from kapiserver.apiserver.customresources.converted_objects import ConvertedObjects

        return ConvertedObjects(self._stores)

    async def start(self) -> None:
        """Learn of all definitions there are, and follow them from now on. A store that cannot be
        read now is no reason not to start."""
        self._subscription = self.store.informer.subscribe_batches(self._on_changes)
        try:
            await self._subscription.wait_synced()
        except StorageError as error:
            _log.warning("custom resources: %s; retrying", error)

    def stop(self) -> None:
        """Follow them no more."""
        if self._subscription is not None:
            self._subscription.cancel()

    async def look_up(self, group: str, plural: str) -> bool:
        """Ask the store for a definition that is not known here; whether there is one."""
        if "." not in group:
            return False
        try:
            await self.store.get(ObjectKey("", f"{plural}.{group}"))
        except NotFound:
            return False
        return True

    # What the informer delivers.

    def _on_changes(self, changes: Sequence[ObjectChange]) -> None:
        self._take({change.last.key.name: change.new for change in changes})

    def _take(self, entries: dict[str, Entry | None]) -> None:
        changes: dict[str, Definition | None] = {}
        retired: list[str] = []
        for name, entry in entries.items():
            head = None if entry is None else self._head(entry)
            if head is None:
                self.heads.pop(name, None)
            else:
                self.heads[name] = head
            before = self._scheme.custom.by_name(name)
            now = self._served(head, entry)
            if (before and before.identity) != (now and now.identity):
                changes[name] = now
            if before and (now is None or before.shape != now.shape):
                retired.append(name)
        there = {name: now for name, now in changes.items() if now is not None}
        self._leaving.difference_update(there)
        self._exchange(there, [name for name in retired if name in there or name not in changes])
        gone = changes.keys() - there.keys() - self._leaving
        if gone:
            self._leaving.update(gone)
            removing = asyncio.get_running_loop().create_task(self._remove(gone))
            self._removing.add(removing)
            removing.add_done_callback(self._removing.discard)
        for told in self.followers:
            told(list(entries))

    async def _remove(self, names: Set[str]) -> None:
        """Forget kinds when their watches have told of the last objects, which none could write
        any more without them; a kind that is served anew meanwhile stays."""
        await self._stores.wait_delivered(names)
        gone = names & self._leaving
        self._leaving -= gone
        self._exchange(dict.fromkeys(gone), list(gone))

    def _exchange(self, changes: Mapping[str, Definition | None], retired: Sequence[str]) -> None:
        if changes:
            self._scheme.custom = self._scheme.custom.with_changes(changes)
            for name in retired:
                self._stores.retire(name)

    def _head(self, entry: Entry) -> Tree | None:
        try:
            return self.store.codec.decode_part(entry, self._decode_head)
        except Corrupt as error:
            _log.warning("a definition cannot be read, and its kind is not served: %s", error)
            return None

    def _served(self, head: Tree | None, entry: Entry | None) -> Definition | None:
        """The definition, where its kind is served."""
        if head is None or entry is None or not value_at(head, "status", "acceptedNames", "plural"):
            return None
        established = any(
            one["type"] == "Established" and one["status"] == "True"
            for one in head["status"].get("conditions") or ()
        )
        # Read in a thread, perhaps: nothing of the entry's changes.
        load = functools.partial(self.store.codec.tree, entry)
        return Definition(head, load) if established else None

    @functools.cached_property
    def _decode_head(self) -> MessageDecoder:
        from kapiserver.api.apiextensions.crd_summary import DefinitionSummary
        from kapiserver.codecs.protobuf_messages import message_decoder

        return message_decoder(DefinitionSummary)
