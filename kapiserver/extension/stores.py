"""The stores of an extension API server: that of the server, those that resources name, and that of
the copies of virtual resources.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from msgspec import Struct

from kapiserver.apiserver.config import Config
from kapiserver.extension.resources import Resource
from kapiserver.host import Host
from kapiserver.storage.concurrency.clock import Clock
from kapiserver.storage.kv.compaction import Compactor
from kapiserver.storage.kv.contract import KV, Revision
from kapiserver.storage.sqlite.embedded_store import open_embedded


class Stores(Struct, frozen=True, kw_only=True):
    """Open stores.

    kv      the store of the server
    own     the stores of resources that name one, by group and plural name
    copies  the store in memory of the copies of virtual resources; None if there are none
    """

    kv: KV
    own: Mapping[tuple[str, str], KV]
    copies: KV | None

    def __iter__(self) -> Iterator[KV]:
        """Yield each store of objects once."""
        yield self.kv
        yield from dict.fromkeys(self.own.values())


@asynccontextmanager
async def open_stores(
    resources: Sequence[Resource[Any]], host: Host, config: Config, clock: Clock
) -> AsyncIterator[Stores]:
    """Open the stores of resources, and compact them until the block ends. Raises ValueError for a
    store that a resource names, StorageError."""
    async with AsyncExitStack() as stack:
        kv = await stack.enter_async_context(_open(host, config, clock))
        by_location: dict[str, KV] = {config.store.storage: kv}
        own: dict[tuple[str, str], KV] = {}
        for resource in resources:
            location = resource.storage
            if not location:
                continue
            if location not in by_location:
                settings = config.replace(storage=location)
                opened = await stack.enter_async_context(_open(host, settings, clock))
                by_location[location] = opened
            own[(resource.group, resource.plural)] = by_location[location]
        copies = None
        if any(resource.source is not None for resource in resources):
            copies = await stack.enter_async_context(open_copies(config, clock))
        yield Stores(kv=kv, own=own, copies=copies)


@asynccontextmanager
async def _open(host: Host, config: Config, clock: Clock) -> AsyncIterator[KV]:
    store = config.store
    async with host.open_store(config, clock) as kv:
        compactor = Compactor(kv, clock, store.etcd_compaction_interval, root=store.key_root)
        compactor.start()
        try:
            yield kv
        finally:
            compactor.stop()


@asynccontextmanager
async def open_copies(config: Config, clock: Clock) -> AsyncIterator[KV]:
    """Open a store in memory for copies of what is elsewhere, and compact it until the block ends.
    Its revisions begin at the time, in milliseconds. Raises StorageError."""
    kv = await open_embedded(None, clock=clock, first_revision=Revision(int(clock.now() * 1000)))
    compactor = Compactor(kv, clock, config.store.etcd_compaction_interval)
    compactor.start()
    try:
        yield kv
    finally:
        compactor.stop()
        await kv.close()
