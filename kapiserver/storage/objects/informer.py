"""Informers: the objects of one resource, and their changes, for code in this process.

An informer stands on the watch cache of its resource and holds no objects of its own. Each
subscription delivers every present object once, then every change in order. When the cache loses
its watch, the informer fills it again and delivers the differences between the objects that a
handler has seen and the present ones. Without subscriptions an informer costs nothing. Knows no
kind and no HTTP. Mirrors SharedInformer, Lister and Indexer of client-go's
tools/cache.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from contextvars import Context
from typing import TypeAlias, TypeVar

from msgspec import Struct

from kapiserver.api.selectors import Selection
from kapiserver.api.types import Tree
from kapiserver.storage.cache.entry import Entry, ObjectKey
from kapiserver.storage.cache.offload import Offloader
from kapiserver.storage.cache.sorted_entries import entries_in_scope
from kapiserver.storage.cache.watch_cache import CachedEvent, WatchCache
from kapiserver.storage.concurrency.clock import Clock, Timer
from kapiserver.storage.concurrency.subscriptions import Subscription
from kapiserver.storage.concurrency.time_slice import TimeSlice
from kapiserver.storage.errors import Corrupt, StorageError
from kapiserver.storage.kv.contract import Revision
from kapiserver.storage.objects.object_codec import ObjectCodec

RETRY_SECONDS = 1.0
"""The time between two attempts to fill the cache after it has lost its watch."""

_log = logging.getLogger(__name__)


class ObjectChange(Struct, frozen=True):
    """One change of one object: `old` is None if it was created, `new` if it was deleted."""

    old: Entry | None
    new: Entry | None

    @property
    def last(self) -> Entry:
        """The object as it is now, or as it was before its deletion."""
        entry = self.new if self.new is not None else self.old
        assert entry is not None
        return entry


Argument = TypeVar("Argument")

OnChange: TypeAlias = Callable[[ObjectChange], None]
"""Takes one change. Called on the event loop; must not block."""

OnChanges: TypeAlias = Callable[[Sequence[ObjectChange]], None]
"""Takes a batch of changes at once."""


class Informer:
    """The informer of one resource; `ResourceStore.informer`."""

    def __init__(
        self, cache: WatchCache, codec: ObjectCodec, clock: Clock, offloader: Offloader
    ) -> None:
        self._offloader = offloader
        self._cache = cache
        self._codec = codec
        self._clock = clock
        self._subscriptions: dict[InformerSubscription, None] = {}
        self._cache_subscription: Subscription | None = None
        self._last_entries: Sequence[Entry] = ()
        """The entries of the cache when it lost its watch."""
        self._filling: asyncio.Task[None] | None = None
        self._retry: Timer | None = None

    @property
    def lister(self) -> Lister:
        """A new lister of the objects. The informer does not keep it, because that would be a
        reference cycle."""
        return Lister(self, self._codec)

    def subscribe(self, on_change: OnChange) -> InformerSubscription:
        """Deliver objects and changes one by one; many objects in time slices."""

        def deliver(changes: Sequence[ObjectChange]) -> None:
            for change in changes:
                self._call(on_change, change)

        return self._subscribe(InformerSubscription(self, deliver, in_slices=True))

    def subscribe_batches(self, on_changes: OnChanges) -> InformerSubscription:
        """Deliver all present objects in one call, and changes when the cache receives them. With
        the embedded store this is before the write is acknowledged."""

        def deliver(changes: Sequence[ObjectChange]) -> None:
            self._call(on_changes, changes)

        return self._subscribe(InformerSubscription(self, deliver, in_slices=False))

    async def trees(self, change: ObjectChange) -> list[tuple[Entry, Tree]]:
        """Return the trees of the objects of a change that are slow to decode, decoded in a thread.
        Objects that cannot be decoded are left out."""
        trees = []
        for entry in (change.old, change.new):
            if entry is not None and entry.is_slow_to_decode():
                run = self._offloader.run_in_thread
                with suppress(Corrupt):  # the handler gets the error
                    tree = await run(entry.codec.tree, entry, limited=entry.is_large)
                    entry.codec.is_tree_loaded = True
                    trees.append((entry, tree))
        return trees

    async def wait_for(self, revision: Revision) -> bool:
        """Wait until the lister shows all writes up to a revision, and the handlers have them.
        Return False if that takes too long. Raises Unavailable."""
        if not await self._cache.wait_for_revision(revision):
            return False
        await self._wait_delivered()
        return True

    async def fresh(self) -> None:
        """Wait until the lister shows every write that was acknowledged before the call, and the
        handlers have it. Raises Unavailable."""
        await self._cache.wait_fresh()
        await self._wait_delivered()

    async def _wait_delivered(self) -> None:
        """Wait until the handlers have got the changes that the lister shows."""
        for subscription in tuple(self._subscriptions):
            await subscription.wait_decoded()

    def _call(self, handler: Callable[[Argument], None], argument: Argument) -> None:
        try:
            handler(argument)
        except Corrupt as error:
            _log.warning("an object is ignored: %s", error)
        except Exception:  # an error of one handler must not stop the store and the others
            _log.exception("a handler of %s failed", self._codec.prefix)

    def _subscribe(self, subscription: InformerSubscription) -> InformerSubscription:
        if self._cache_subscription is None:
            self._cache_subscription = self._cache.subscribe(self)
        self._subscriptions[subscription] = None
        if self._cache.is_filled:
            subscription.begin(self.in_scope(self._codec.prefix))
        else:
            self._fill()
        return subscription

    def unsubscribe(self, subscription: InformerSubscription) -> None:
        """Stop the deliveries; called by `InformerSubscription.cancel`."""
        self._subscriptions.pop(subscription, None)
        if not self._subscriptions and self._cache_subscription is not None:
            self._cache_subscription.cancel()
            self._cache_subscription = None
            self._last_entries = ()
            if self._retry is not None:
                self._retry.cancel()
                self._retry = None

    async def wait_filled(self) -> None:
        """Wait until the cache holds all objects. Raises StorageError."""
        await self._cache.wait_ready()

    def in_scope(self, scope: str) -> Sequence[Entry]:
        """Return the objects below a prefix or under one key, sorted by path. After a break,
        return the objects from before it until they are read again."""
        if self._cache.is_filled:
            return self._cache.range(scope)
        return entries_in_scope(self._last_entries, scope)

    # Cache listener.

    def on_filled(self) -> None:
        """Deliver the objects that handlers have not seen; the cache holds all objects."""
        self._last_entries = ()
        entries = self.in_scope(self._codec.prefix)
        for subscription in tuple(self._subscriptions):
            subscription.begin(entries)

    def on_events(self, events: Sequence[CachedEvent]) -> None:
        """Deliver changes."""
        changes = [
            ObjectChange(event.previous, event.entry)
            for event in events
            if event.previous is not None or event.entry is not None
        ]
        need_decoding = any(map(_needs_decoding, changes))
        for subscription in tuple(self._subscriptions):
            subscription.take(changes, need_decoding=need_decoding)

    def on_emptied(self, entries: Sequence[Entry], error: Exception | None) -> None:
        """Keep the entries of a cache that lost its watch. After an error, fill the cache again; a
        cache that was stopped stays empty until another reader fills it."""
        self._last_entries = entries
        view = {entry.path: entry for entry in entries}
        for subscription in tuple(self._subscriptions):
            subscription.pause(view)
        if error is not None:
            self._fill_later()

    # Filling the cache.

    def _fill(self) -> None:
        self._retry = None
        if self._subscriptions and self._filling is None:
            self._filling = asyncio.get_running_loop().create_task(self._try_to_fill())

    def _fill_later(self) -> None:
        if self._retry is None:
            self._retry = self._clock.call_later(RETRY_SECONDS, self._fill)

    async def _try_to_fill(self) -> None:
        try:
            await self._cache.wait_ready()
        except StorageError as error:
            _log.info("informer of %s: %s; retrying", self._codec.prefix, error)
            self._fill_later()
        finally:
            self._filling = None


class InformerSubscription(Subscription):
    """One handler's subscription to an informer.

    Until it is synced, and after a break, it delivers from a snapshot of the cache while changes
    queue up behind it; then it is live, and delivers changes as they come.
    """

    __slots__ = (
        "_decoding",
        "_deliver",
        "_in_slices",
        "_pending",
        "_synced",
        "_task",
        "_undecoded",
        "_view",
        "informer",
    )

    def __init__(self, informer: Informer, deliver: OnChanges, *, in_slices: bool) -> None:
        self.informer = informer
        self._deliver = deliver
        self._in_slices = in_slices
        self._view: dict[str, Entry] | None = {}
        """The entries that the handler has seen, by path. None while live: they are those of the
        cache."""
        self._pending: list[ObjectChange] = []
        self._undecoded: deque[ObjectChange] = deque()
        """The first change with an object that is slow to decode, and all later changes."""
        self._decoding: asyncio.Task[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._synced = asyncio.Event()

    @property
    def synced(self) -> bool:
        """Whether the handler has seen what the cache holds. False until it has seen all present
        objects, and after a break until it has seen the changes since."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        """Wait until `synced`. Raises StorageError when the store cannot be read now; the informer
        keeps trying."""
        if not self.synced:
            await self.informer.wait_filled()
            await self._synced.wait()

    @property
    def is_current(self) -> bool:
        """Whether the handler has received every change that the informer has: it is synced, and no
        object is being decoded."""
        return self.synced and self._decoding is None

    async def wait_current(self) -> None:
        """Wait until `is_current`. Raises StorageError as `wait_synced` does."""
        await self.wait_synced()
        await self.wait_decoded()

    def cancel(self) -> None:
        """Stop the deliveries. Idempotent."""
        self.informer.unsubscribe(self)
        self._deliver = _deliver_nothing
        self._stop_decoding()
        self._stop_task()

    def begin(self, entries: Sequence[Entry]) -> None:
        """Deliver the differences between the handler's view and the cache; called by the
        informer when the cache is full."""
        view = self._view or {}
        if self._in_slices:
            self._view = view = dict(view)
            catch_up = self._catch_up(view, differences(view, entries))
            self._task = asyncio.get_running_loop().create_task(catch_up)
        else:
            changes = list(differences(view, entries))
            self._go_live()
            if changes:
                self._deliver(changes)

    def take(self, changes: Sequence[ObjectChange], *, need_decoding: bool) -> None:
        """Deliver changes; called by the informer. Objects that `need_decoding` are decoded in a
        thread first if the handler takes changes one by one."""
        if self._view is not None:
            self._pending.extend(changes)
        elif self._in_slices and (self._undecoded or need_decoding):
            self._undecoded.extend(changes)
            if self._decoding is None:
                # Outside the context of the request whose write is delivered.
                self._decoding = asyncio.create_task(self._decode(), context=Context())
        else:
            self._deliver(changes)

    async def _decode(self) -> None:
        """Deliver the changes with objects that are slow to decode, and those behind them."""
        while self._undecoded:
            change = self._undecoded[0]
            trees = await self.informer.trees(change)
            self._undecoded.popleft()
            self._deliver_with(trees, change)
        self._decoding = None

    def _deliver_with(self, trees: Iterable[tuple[Entry, Tree]], change: ObjectChange) -> None:
        """Deliver a change whose handler may read these trees."""
        lent = [(entry, tree) for entry, tree in trees if entry.cached_tree is None]
        for entry, tree in lent:
            entry.lend_tree(tree)
        self._deliver((change,))
        for entry, _ in lent:
            entry.drop_tree()

    async def wait_decoded(self) -> None:
        """Wait until the changes whose objects are being decoded are delivered."""
        while self._decoding is not None:
            await asyncio.wait([self._decoding])

    def _stop_decoding(self) -> None:
        if self._decoding is not None:
            self._decoding.cancel()
            self._decoding = None
        undecoded, self._undecoded = self._undecoded, deque()
        if undecoded:
            self._deliver(undecoded)

    def pause(self, view: dict[str, Entry]) -> None:
        """Stop delivering changes until the next `begin`. `view` has the entries that the cache
        held. Called by the informer."""
        self._stop_decoding()
        self._stop_task()
        self._synced.clear()
        if self._view is None:
            self._view = view

    async def _catch_up(self, view: dict[str, Entry], changes: Iterable[ObjectChange]) -> None:
        time_slice = TimeSlice()
        while changes:
            for change in changes:
                _apply(change, view)
                if _needs_decoding(change):
                    self._deliver_with(await self.informer.trees(change), change)
                else:
                    self._deliver((change,))
                await time_slice.yield_if_expired()
            changes, self._pending = self._pending, []
        self._go_live()

    def _go_live(self) -> None:
        self._view = None
        self._task = None
        self._synced.set()

    def _stop_task(self) -> None:
        self._pending = []
        if self._task is not None:
            self._task.cancel()
            self._task = None


def _needs_decoding(change: ObjectChange) -> bool:
    old, new = change.old, change.new
    return (old is not None and old.is_slow_to_decode()) or (
        new is not None and new.is_slow_to_decode()
    )


def differences(view: dict[str, Entry], entries: Sequence[Entry]) -> Iterator[ObjectChange]:
    """Yield the changes from one state (by path) to another (sorted by path), deletions first. The
    view may change between two of them."""
    if view:
        paths = {entry.path for entry in entries}
        for path, old in list(view.items()):
            if path not in paths:
                yield ObjectChange(old, None)
    for entry in entries:
        before = view.get(entry.path)
        if before is None or before.revision != entry.revision:
            yield ObjectChange(before, entry)


def _apply(change: ObjectChange, view: dict[str, Entry]) -> None:
    if change.new is not None:
        view[change.new.path] = change.new
    else:
        view.pop(change.last.path, None)


def _deliver_nothing(_changes: Sequence[ObjectChange]) -> None:
    pass


class Lister:
    """Reads the objects of an informer without waiting. They are complete once a subscription is
    synced, and may be behind the store. An entry's tree is shared: never change it."""

    __slots__ = ("_codec", "_informer")

    def __init__(self, informer: Informer, codec: ObjectCodec) -> None:
        self._informer = informer
        self._codec = codec

    def get(self, key: ObjectKey) -> Entry | None:
        """Return one object, or None."""
        if not key.name:
            return None  # the path without a name is the scope of all objects
        entries = self._informer.in_scope(self._codec.path(key))
        return entries[0] if entries else None

    def list(self, namespace: str = "") -> Sequence[Entry]:
        """Return the objects of a namespace, or all, sorted by path."""
        return self._informer.in_scope(self._codec.scope(namespace))

    def select(self, selection: Selection, namespace: str = "") -> Sequence[Entry]:
        """Return the objects of a namespace, or of all, that a selection matches."""
        return [entry for entry in self.list(namespace) if entry.is_selected(selection)]


class Index:
    """Objects by values that each of them has, such as the names that it refers to. Whoever
    subscribes to an informer keeps its indexes up to date."""

    def __init__(self, values: Callable[[Entry], Iterable[str]]) -> None:
        self._values = values
        self._entries: dict[str, dict[str, Entry]] = {}
        """The objects, by value and path."""
        self._values_by_path: dict[str, tuple[str, ...]] = {}

    def get(self, value: str) -> Sequence[Entry]:
        """Return the objects that have a value."""
        return list(self._entries.get(value, {}).values())

    def update(self, change: ObjectChange) -> None:
        """Index an object that was created or changed, or forget one that was deleted."""
        path = change.last.path
        for value in self._values_by_path.pop(path, ()):
            entries = self._entries[value]
            entries.pop(path, None)
            if not entries:
                del self._entries[value]
        if change.new is None:
            return
        values = tuple(dict.fromkeys(self._values(change.new)))
        if values:
            self._values_by_path[path] = values
            for value in values:
                self._entries.setdefault(value, {})[path] = change.new
