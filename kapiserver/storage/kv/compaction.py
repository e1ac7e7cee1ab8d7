"""Periodic compaction, so that the history of a store does not grow without bound.

Each run writes one key and compacts to the revision of the previous run, so history reaches back
for one to two intervals. The write moves the revision of an idle store, so that old continue tokens
expire there too. If several servers share a store, only the server whose write of the key succeeds
compacts. Mirrors the compactor of k8s.io/apiserver's etcd3 storage, which writes `compact_rev_key`.
"""

from __future__ import annotations

import asyncio
import logging

from kapiserver.storage.concurrency.clock import Clock, Timer
from kapiserver.storage.errors import Conflict, KeyExists, Refused, StorageError
from kapiserver.storage.kv.contract import KV, Revision

INTERVAL = 300.0
"""Seconds between two compactions, as by default of --etcd-compaction-interval."""
COMPACTION_KEY = "/kapiserver/compaction"
"""The key in the store, below its root, that each run writes. Its value is the revision to which
the run compacts, in decimal."""

_log = logging.getLogger(__name__)


class Compactor:
    """Compacts one store periodically, from `start` to `stop`.

    root    prefix of the keys of the store
    """

    def __init__(self, kv: KV, clock: Clock, interval: float = INTERVAL, *, root: str = "") -> None:
        """With an interval of 0 seconds, nothing is compacted."""
        self._kv = kv
        self._clock = clock
        self._interval = interval
        self._key = root + COMPACTION_KEY
        self._key_revision = Revision(0)
        """The last write of the key that this server knows, 0 if it knows none."""
        self._previous_revision: Revision | None = None
        self._timer: Timer | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopped = False

    def start(self) -> None:
        """Start compacting. Call it on the store's event loop."""
        if self._interval > 0:
            self._start_run()

    def stop(self) -> None:
        """Stop compacting. Call it before the store is closed. Idempotent."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    def _start_run(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        try:
            if self._previous_revision is None:
                await self._read_key()
            else:
                await self._compact(self._previous_revision)
        except StorageError as error:
            _log.warning("compaction failed, retrying later: %s", error)
        if not self._stopped:
            self._timer = self._clock.call_later(self._interval, self._start_run)

    async def _compact(self, revision: Revision) -> None:
        try:
            current = await self._write_key(revision)
        except (Conflict, KeyExists):  # another server compacts
            compacted = await self._read_key()
            if compacted:
                await self._kv.compact(compacted)
            return
        except Refused:  # no space: compaction may free some
            current = await self._kv.current_revision()
        await self._kv.compact(revision)
        self._previous_revision = current
        _log.debug("compacted history before revision %d", revision)

    async def _write_key(self, revision: Revision) -> Revision:
        value = str(revision).encode()
        if self._key_revision:
            key_revision = await self._kv.update(self._key, value, expected=self._key_revision)
        else:
            key_revision = await self._kv.create(self._key, value)
        self._key_revision = key_revision
        return key_revision

    async def _read_key(self) -> Revision:
        """Read the key for the next run; return the revision that its last writer compacted to, 0
        if there is none."""
        read = await self._kv.get(self._key)
        self._previous_revision = read.revision
        self._key_revision = read.item.revision if read.item is not None else Revision(0)
        value = read.item.value if read.item is not None else b""
        return Revision(int(value) if value.isdigit() else 0)
