"""The base class of controllers: how to write a control loop here.

A controller watches objects, and changes the cluster until it is as these objects ask. The words
are those of kube-controller-manager and controller-runtime:

    informer        the objects of a resource in memory, and their changes; `watch` returns it
    index           the objects of an informer by a value, such as the uid of their owner
    event handler   maps a change of an object to the keys of the objects to reconcile
    work queue      holds these keys, each once, until a worker takes it
    reconcile       compares the objects of a key with what they ask for, and writes the difference

A subclass has two methods. `set_up` watches resources. `reconcile` handles one key: it reads its
state from informers, lets a pure function decide (`state in, actions out`, which a test calls
without a server), and carries out the actions with the client of its own user, `context.resource`.

    class ReplicaSetController(Controller[ObjectKey]):
        workers = 5

        async def reconcile(self, key: ObjectKey) -> None: ...

What can go wrong: others write at the same time (`loop/writing.py` begins again after a Conflict),
the informers are behind a write of this controller (`Informer.wait_for` waits for it), or the store
does not answer. So `reconcile` may be called at any time and more often than needed, and relies on
nothing that happened before. When it raises, the key is retried with exponential backoff.

`docs/how-to/controllers.md` has a whole example, and `registry.py` the list of controllers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from kapiserver.api.group import GroupVersion
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.control_loop import ControlLoop
from kapiserver.controllers.loop.workqueue import Item
from kapiserver.storage.concurrency.subscriptions import Subscription
from kapiserver.storage.objects.informer import (
    Index,
    Informer,
    InformerSubscription,
    ObjectChange,
)

EventHandler: TypeAlias = Callable[[ObjectChange], Iterable[Item]]
"""Maps a change of an object to the items to queue. `event_handlers.py` has the usual ones."""


def _no_items(_change: ObjectChange) -> Iterable[Item]:
    return ()


class Controller(ControlLoop[Item]):
    """A control loop that reads the informers of its server. The name for logs and metrics is that
    of the registry."""

    def __init__(self, context: ControllerContext) -> None:
        server = context.server
        super().__init__(context.name, server.clock, server.metrics.workqueues)
        self.context = context
        self.server = server
        self._informers: dict[Informer, InformerSubscription] = {}
        self._subscriptions: list[Subscription] = []

    # What a subclass implements.

    def set_up(self) -> None:
        """Watch resources, and queue what needs no change of an object. Called by `start`."""
        raise NotImplementedError

    async def reconcile(self, item: Item) -> None:
        """Bring the cluster to the state that the objects of an item ask for. Called when all
        informers are synced, and for each item by one worker at a time. When it raises, the item is
        retried with exponential backoff."""
        raise NotImplementedError

    # What a subclass uses.

    def watch(
        self,
        version: GroupVersion,
        resource: str,
        handler: EventHandler[Item] = _no_items,
        *indexes: Index,
        delay: float = 0.0,
    ) -> Informer:
        """Watch a resource and return its informer. A second call for the same resource changes
        nothing, so that `reconcile` may watch what is not always needed. Raises NotRegistered.

        handler  maps each present object, and each change, to items, which are queued
        indexes  are updated before the handler is called
        delay    the seconds that an item waits, so that one reconcile covers a burst of changes
        """
        informer = self.server.stores.by_name(version, resource).informer
        if informer not in self._informers:

            def on_change(change: ObjectChange) -> None:
                for index in indexes:
                    index.update(change)
                for item in handler(change):
                    self.queue.add_batched(item, delay)

            self._informers[informer] = informer.subscribe(on_change)
        return informer

    def unwatch(self, informer: Informer) -> None:
        """End a watch. Idempotent."""
        subscription = self._informers.pop(informer, None)
        if subscription is not None:
            subscription.cancel()

    def add_subscription(self, subscription: Subscription) -> None:
        """Cancel a subscription when the controller stops."""
        self._subscriptions.append(subscription)

    async def wait_synced(self) -> None:
        """Wait until all informers are synced, also those that are watched during the wait;
        `reconcile` calls it after it has watched another resource. Raises StorageError."""
        while unsynced := [
            informer for informer in self._informers.values() if not informer.synced
        ]:
            await unsynced[0].wait_synced()

    # What the manager and tests use.

    async def stop(self) -> None:
        """Stop, and cancel the reconciles in progress."""
        for subscription in (*self._informers.values(), *self._subscriptions):
            subscription.cancel()
        await super().stop()
        for work in self.context.background:
            await work.stop()
        self.context.background.clear()  # a recorder has the context, too

    @property
    def settled(self) -> bool:
        """Whether nothing is left to do at this time of the clock: the informers have delivered all
        changes that they received, no item is queued or being reconciled, and the events are
        written. Items that wait for a delay or a retry do not count."""
        if not self.queue.is_idle:
            return False
        for informer in self._informers.values():
            if not informer.is_current:
                return False
        return all(tasks.is_idle for tasks in self.context.background)

    async def wait_settled(self) -> None:
        """Wait until the controller is settled. Raises StorageError."""
        while not self.settled:
            for subscription in tuple(self._informers.values()):
                await subscription.wait_current()
            await self.queue.wait_idle()
            for work in self.context.background:
                await work.wait_idle()

    async def _reconcile_synced(self, item: Item) -> None:
        await self.wait_synced()
        await self.reconcile(item)


AnyController: TypeAlias = Controller[Any]
