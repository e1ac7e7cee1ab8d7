"""Watches a resource that may not be served yet or any more, such as one of a definition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kapiserver.api.errors import NotRegistered
from kapiserver.api.group import GroupVersion
from kapiserver.controllers.loop.controller import AnyController, EventHandler
from kapiserver.storage.cache.entry import Entry, ObjectKey
from kapiserver.storage.concurrency.subscriptions import Subscription
from kapiserver.storage.objects.informer import Index, Informer


class ServedWatch(Subscription):
    """The watch of a controller, which begins when the resource is served. When its definition
    changes, all present objects are delivered again."""

    __slots__ = ("_controller", "_definitions", "_handler", "_indexes", "_informer", "_resource")

    def __init__(
        self,
        controller: AnyController,
        version: GroupVersion,
        resource: str,
        handler: EventHandler[Any],
        *indexes: Index,
    ) -> None:
        self._controller = controller
        self._resource = (version, resource)
        self._handler = handler
        self._indexes = indexes
        self._informer: Informer | None = None
        self._definitions = controller.server.custom_resources.subscribe(self._on_definitions)
        controller.add_subscription(self)
        self._watch()

    def get(self, key: ObjectKey) -> Entry | None:
        """Return an object; None if there is none, or the resource is not served."""
        return None if self._informer is None else self._informer.lister.get(key)

    def list(self, namespace: str = "") -> Sequence[Entry]:
        """Return the objects of a namespace, or all; none if the resource is not served."""
        return () if self._informer is None else self._informer.lister.list(namespace)

    def cancel(self) -> None:
        """End the watch. Idempotent."""
        self._definitions.cancel()
        if self._informer is not None:
            self._controller.unwatch(self._informer)
            self._informer = None

    def _on_definitions(self, names: Sequence[str]) -> None:
        version, resource = self._resource
        if f"{resource}.{version.group}" in names:
            self._watch()

    def _watch(self) -> None:
        """Watch the present store of the resource, which is another one after a change of its
        definition."""
        version, resource = self._resource
        try:
            informer = self._controller.server.stores.by_name(version, resource).informer
        except NotRegistered:
            return
        if self._informer is not None and self._informer is not informer:
            self._controller.unwatch(self._informer)
        self._informer = informer
        self._controller.watch(version, resource, self._handler, *self._indexes)
