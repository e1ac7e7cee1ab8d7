"""The quota of a logical cluster: how many objects it may have."""

from __future__ import annotations

from collections.abc import Callable

from kapiserver.controllers.loop.leader import LEASE
from kapiserver.storage.errors import QuotaExceeded
from kapiserver.storage.kv.contract import KV, Revision
from kapiserver.storage.wrappers.wrapped_store import WrappedStore


class QuotaStore(WrappedStore):
    """A view of a store that refuses to create an object if its rows are too many. It counts the
    rows when it has created as many as there was room for, since rows also go, and other servers
    write. `close` leaves the store open.

    rows    the store of the rows that count: those below `root`
    limit   returns how many there may be; None: no limit
    """

    def __init__(self, kv: KV, rows: KV, *, root: str, limit: Callable[[], int | None]) -> None:
        super().__init__(kv)
        self._rows = rows
        self._prefix = f"{root}/"
        self._own_keys = f"{root}/kapiserver/"
        """The prefix of keys that are not of objects."""
        self._lease = f"{root}/leases/{LEASE.namespace}/{LEASE.name}"
        """The key of the Lease with which servers of one store elect who runs the controllers."""
        self._limit = limit
        self._counted_for = 0
        """The limit for which the rows were counted."""
        self._room = 0
        """The objects that may be created before the rows are counted again."""

    async def create(self, key: str, value: bytes, *, ttl: int = 0) -> Revision:
        limit = self._limit()
        if limit is not None and key != self._lease and not key.startswith(self._own_keys):
            await self._charge(limit)
        return await self._kv.create(key, value, ttl=ttl)

    async def _charge(self, limit: int) -> None:
        if self._room <= 0 or limit != self._counted_for:
            objects = await self._count(self._prefix) - await self._count(self._own_keys)
            if (await self._rows.get(self._lease)).item is not None:
                objects -= 1
            self._room, self._counted_for = limit - objects, limit
            if self._room <= 0:
                raise QuotaExceeded(f"exceeded quota: the cluster may have {limit} objects")
        self._room -= 1

    async def _count(self, prefix: str) -> int:
        page = await self._rows.range(prefix, limit=1)
        return len(page.items) + page.remaining
