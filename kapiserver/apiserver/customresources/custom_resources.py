"""Keeps the scheme's custom kinds up to date with the CustomResourceDefinitions.

With an embedded store, a change of a definition takes effect before its write is acknowledged. With
etcd it may be late; `is_defined` reads the store before a path counts as unknown. A controller
writes the status of definitions (`controllers/status/crd_status.py`). Mirrors
customresource_handler.go of k8s.io/apiextensions-apiserver.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from typing import TYPE_CHECKING, TypeAlias

from kapiserver.api.accessors import value_at
from kapiserver.api.custom_kinds import Definition
from kapiserver.api.errors import NotRegistered
from kapiserver.api.group import GroupVersion
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import Tree
from kapiserver.storage.cache.entry import Entry, ObjectKey
from kapiserver.storage.concurrency.background_tasks import BackgroundTasks
from kapiserver.storage.concurrency.subscriptions import Subscribers, Subscription
from kapiserver.storage.errors import Corrupt, NotFound, StorageError
from kapiserver.storage.objects import object_reader
from kapiserver.storage.objects.informer import InformerSubscription, ObjectChange
from kapiserver.storage.objects.object_store import ResourceStore
from kapiserver.storage.objects.store_registry import StoreRegistry

if TYPE_CHECKING:
    from kapiserver.apiserver.customresources.converted_objects import ConvertedObjectCache
    from kapiserver.codecs.protobuf.messages import MessageDecoder

APIEXTENSIONS = GroupVersion("apiextensions.k8s.io", "v1")

_log = logging.getLogger(__name__)


OnServed: TypeAlias = Callable[[str, str, Collection[str]], None]
"""A function that takes the group and plural name of a definition, and its served versions: none if
the definition is deleted."""


OnDefinitionsChanged: TypeAlias = Callable[[Sequence[str]], None]
"""A function that takes the names of definitions that were created, changed or deleted."""


def _ignore(_group: str, _plural: str, _versions: Collection[str]) -> None:
    pass


class CustomResources:
    """Updates `Scheme.custom` and the stores of custom objects when definitions change.

    summaries   every definition, established or not, by name; without schemas
    on_served   called when the served versions of a definition may have changed
    """

    def __init__(
        self, scheme: Scheme, stores: StoreRegistry, on_served: OnServed = _ignore
    ) -> None:
        self.summaries: dict[str, Tree] = {}
        self._subscribers = Subscribers[OnDefinitionsChanged]()
        self._scheme = scheme
        self._stores = stores
        self._on_served = on_served
        self._subscription: InformerSubscription | None = None
        self._removal_tasks = BackgroundTasks[None]()
        self._terminating: set[str] = set()
        """Kinds to remove as soon as their watches have delivered the last events."""
        self._replaced: dict[str, list[Definition]] = {}
        """Definitions that were replaced, by name, while stores may still use them."""

    @functools.cached_property
    def store(self) -> ResourceStore:
        """The store of definitions."""
        return self._stores.by_name(APIEXTENSIONS, "customresourcedefinitions")

    @functools.cached_property
    def converted(self) -> ConvertedObjectCache:
        """The cache of objects that webhooks converted."""
        from kapiserver.apiserver.customresources.converted_objects import ConvertedObjectCache

        return ConvertedObjectCache(self._stores)

    async def start(self) -> None:
        """Load all definitions and subscribe to their changes. If the store cannot be read now,
        they are loaded later."""
        self._subscription = self.store.informer.subscribe_batches(self._on_changes)
        try:
            await self._subscription.wait_synced()
        except StorageError as error:
            _log.warning("custom resources: %s; retrying", error)

    def subscribe(self, on_changed: OnDefinitionsChanged) -> Subscription:
        """Call a handler with the names of the definitions that change from now on, after each
        update of the scheme and of `summaries`."""
        return self._subscribers.subscribe(on_changed)

    @property
    def synced(self) -> bool:
        """Whether all definitions are loaded, and changes arrive."""
        return self._subscription is not None and self._subscription.synced

    def stop(self) -> None:
        """Stop following changes."""
        if self._subscription is not None:
            self._subscription.cancel()

    async def is_defined(self, group: str, plural: str) -> bool:
        """Report whether the store has a definition for the resource."""
        if "." not in group:
            return False
        try:
            await self.store.get(ObjectKey("", f"{plural}.{group}"))
        except (NotFound, NotRegistered):  # an extension API server has no definitions
            return False
        return True

    # The handler of the informer.

    def _on_changes(self, changes: Sequence[ObjectChange]) -> None:
        self._update({change.last.key.name: change.new for change in changes})

    def _update(self, entries: dict[str, Entry | None]) -> None:
        changes: dict[str, Definition | None] = {}
        retired: list[str] = []
        for name, entry in entries.items():
            summary = None if entry is None else self._summary(entry)
            if summary is None:
                self.summaries.pop(name, None)
            else:
                self.summaries[name] = summary
            old_definition = self._scheme.custom.by_name(name)
            definition = self._definition(summary, entry)
            if (old_definition and old_definition.identity) != (definition and definition.identity):
                changes[name] = definition
            if old_definition and (definition is None or old_definition.shape != definition.shape):
                retired.append(name)
        served = {
            name: definition for name, definition in changes.items() if definition is not None
        }
        self._terminating.difference_update(served)
        self._apply(served, [name for name in retired if name in served or name not in changes])
        removed = changes.keys() - served.keys() - self._terminating
        if removed:
            self._terminating.update(removed)
            self._removal_tasks.start(self._remove(removed))
        for on_changed in self._subscribers:
            on_changed(list(entries))

    async def _remove(self, names: Set[str]) -> None:
        """Remove kinds when their watches have delivered the last events, which cannot be encoded
        without the kinds. A kind that was defined again stays."""
        await self._stores.wait_delivered(names)
        removed = names & self._terminating
        self._terminating -= removed
        self._apply(dict.fromkeys(removed), list(removed))

    def _apply(self, changes: Mapping[str, Definition | None], retired: Sequence[str]) -> None:
        if not changes:
            return
        for name in changes:
            replaced = self._scheme.custom.by_name(name)
            if replaced is not None:
                self._replaced.setdefault(name, []).append(replaced)
        custom = self._scheme.custom = self._scheme.custom.with_changes(changes)
        for name in retired:
            self._stores.retire(name)
            self._release_later(self._replaced.pop(name, []))
        for name in changes:
            plural, _, group = name.partition(".")
            self._on_served(group, plural, custom.served_versions(group, plural))

    def _release_later(self, definitions: Sequence[Definition]) -> None:
        """Release definitions when their stores have stopped and no request uses them."""

        def release() -> None:
            for definition in definitions:
                definition.release()

        self._stores.clock.call_later(2 * object_reader.MAX_REQUEST_SECONDS, release)

    def _summary(self, entry: Entry) -> Tree | None:
        try:
            return self.store.codec.decode_part(entry, self._decode_summary)
        except Corrupt as error:
            _log.warning("cannot read a CustomResourceDefinition; not serving its kind: %s", error)
            return None

    def _definition(self, summary: Tree | None, entry: Entry | None) -> Definition | None:
        """Return the definition if it is established, else None."""
        if summary is None or entry is None:
            return None
        if not value_at(summary, "status", "acceptedNames", "plural"):
            return None
        established = any(
            condition["type"] == "Established" and condition["status"] == "True"
            for condition in summary["status"].get("conditions") or ()
        )
        # May run in a thread; entries are immutable.
        load = functools.partial(self.store.codec.tree, entry)
        return Definition(summary, load) if established else None

    @functools.cached_property
    def _decode_summary(self) -> MessageDecoder:
        from kapiserver.api.apiextensions.crd_summary import DefinitionSummary
        from kapiserver.codecs.protobuf.messages import message_decoder

        return message_decoder(DefinitionSummary)
