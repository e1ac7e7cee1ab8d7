"""The informers that one controller reads, and its subscriptions to them."""

from __future__ import annotations

from kapiserver.api.group import GroupVersion
from kapiserver.apiserver.context import Server
from kapiserver.storage.objects.informer import Informer, InformerSubscription, OnChange


class Subscriptions:
    """At most one subscription a resource. A controller may add them when it first needs them, so
    that resources that nothing uses are not cached."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._subscriptions: dict[Informer, InformerSubscription] = {}

    def add(self, version: GroupVersion, resource: str, on_change: OnChange) -> Informer:
        """Subscribe to a resource, unless that was done before, and return its informer. Raises
        NotRegistered."""
        informer = self._server.stores.by_name(version, resource).informer
        if informer not in self._subscriptions:
            self._subscriptions[informer] = informer.subscribe(on_change)
        return informer

    async def wait_synced(self) -> None:
        """Wait until all subscriptions are synced, also those that are added during the wait.
        Raises StorageError."""
        while unsynced := [each for each in self._subscriptions.values() if not each.synced]:
            await unsynced[0].wait_synced()

    def cancel(self) -> None:
        """Cancel all subscriptions."""
        for subscription in self._subscriptions.values():
            subscription.cancel()
        self._subscriptions.clear()
