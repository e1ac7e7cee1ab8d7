"""The metadata of all objects, watched once for all controllers that need it.

Garbage collection, namespace deletion and quotas need objects of every kind: one watch of the whole
store serves them all. Knows no controller.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from msgspec import Struct

from kapiserver.apiserver.context import Server
from kapiserver.storage.concurrency.background_tasks import BackgroundTasks
from kapiserver.storage.concurrency.subscriptions import Subscribers, Subscription
from kapiserver.storage.errors import StorageError
from kapiserver.storage.objects.metadata_informer import (
    DeletedObject,
    MetadataHandler,
    MetadataInformer,
    ObjectMetadata,
)

RETRY_SECONDS = 1.0

_log = logging.getLogger(__name__)


class _Subscriber(Struct, frozen=True):
    """A handler, and the resources whose changes it gets; None for all."""

    handler: MetadataHandler
    resources: frozenset[str] | None


class SharedMetadata:
    """A metadata informer with several handlers. It lists again when its watch breaks, and when a
    definition is created for objects that it had to skip."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._subscribers = Subscribers[_Subscriber]()
        self._definitions: Subscription | None = None
        self._informer: MetadataInformer | None = None
        self._broken = asyncio.Event()
        self._listed = asyncio.Event()
        self._served_kinds: frozenset[str] = frozenset()
        """Names of the definitions whose objects the informer delivers."""
        self._checks = BackgroundTasks[None]()
        self._task: asyncio.Task[None] | None = None

    def subscribe(
        self, handler: MetadataHandler, resources: frozenset[str] | None = None
    ) -> Subscription:
        """Deliver the present objects and the changes of some resources (qualified names; None for
        all), and all deletions, to a handler. Call it before `start`."""
        return self._subscribers.subscribe(_Subscriber(handler, resources))

    def uid_of(self, path: str) -> str:
        """Return the uid of the object at a path as last observed; "" if there is none."""
        return "" if self._informer is None else self._informer.uid_of(path)

    async def wait_listed(self) -> None:
        """Wait until the handlers have received all present objects."""
        await self._listed.wait()

    @property
    def is_current(self) -> bool:
        """Whether the handlers have received all present objects and all changes that the informer
        has received; True without handlers."""
        if not self._subscribers:
            return True
        if self._informer is None or not self._listed.is_set():
            return False
        return self._informer.is_current and not self._checks

    async def wait_current(self) -> None:
        """Wait until `is_current`."""
        while not self.is_current:
            await self.wait_listed()
            if self._informer is not None:
                await self._informer.wait_current()
            if self._checks:
                await asyncio.wait(tuple(self._checks))

    def start(self) -> None:
        """Start in a task, if there are handlers."""
        if self._subscribers:
            custom_resources = self._server.custom_resources
            self._definitions = custom_resources.subscribe(self._on_definitions_changed)
            self._task = asyncio.create_task(self._run(), name="metadata-informer")

    async def stop(self) -> None:
        """End the watch."""
        if self._definitions is not None:
            self._definitions.cancel()
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._task = None  # its exception has the frames of `_run`
        if self._informer is not None:
            self._informer.stop()
            self._informer = None  # it has this object as its handler

    async def _run(self) -> None:
        while True:
            self._broken.clear()
            self._listed.clear()
            self._served_kinds = self._current_kinds()
            self._informer = self._server.stores.metadata_informer(self)
            try:
                await self._informer.start(self._broken.set)
                self._listed.set()
            except StorageError as error:
                _log.info("metadata informer: %s; retrying", error)
                self._server.clock.call_later(RETRY_SECONDS, self._broken.set)
            await self._broken.wait()

    def _current_kinds(self) -> frozenset[str]:
        return frozenset(definition.name for definition in self._server.scheme.custom)

    def _on_definitions_changed(self, _names: Sequence[str]) -> None:
        current = self._current_kinds()
        added, self._served_kinds = current - self._served_kinds, current
        for name in added:
            self._checks.start(self._list_again_for(name))

    async def _list_again_for(self, name: str) -> None:
        """List everything again if there are objects of a kind that was unknown until now."""
        definition = self._server.scheme.custom.by_name(name)
        if definition is None:
            return
        prefix = (
            f"{self._server.config.store.key_root}/{definition.stored_version.resource.prefix}/"
        )
        try:
            page = await self._server.stores.kv.range(prefix, limit=1)
        except StorageError:
            return  # the informer's watch breaks too, and lists again
        if page.items and self._informer is not None:
            self._informer.stop()
            self._broken.set()

    # The handler of the informer passes everything on.

    def on_reset(self) -> None:
        """All present objects follow."""
        for subscriber in self._subscribers:
            subscriber.handler.on_reset()

    def on_upsert(self, observed: ObjectMetadata) -> None:
        """An object was created or changed."""
        name = observed.resource.qualified_name
        for subscriber in self._subscribers:
            if subscriber.resources is None or name in subscriber.resources:
                subscriber.handler.on_upsert(observed)

    def on_delete(self, deleted: DeletedObject) -> None:
        """An object was deleted."""
        for subscriber in self._subscribers:
            subscriber.handler.on_delete(deleted)
