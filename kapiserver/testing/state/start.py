"""The state in which a test server starts, to which `reset` brings it back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from kapiserver.testing.state.memory_store import MemoryStore, Snapshot

_NOT_IN_MEMORY = "the server's store is not in memory"


class StartState:
    """The store of a server, if it is in memory, and the snapshot of it that is taken when the
    controllers have created what every cluster has."""

    def __init__(self, settle: Callable[[], Awaitable[None]]) -> None:
        self._settle = settle
        """Returns when the server has done the work that is due."""
        self._store: MemoryStore | None = None
        self._task: asyncio.Task[Snapshot] | None = None
        """Takes the snapshot."""

    def open(self, store: MemoryStore | None) -> None:
        """Begin with the store of a server that starts; None if it is not in memory."""
        self._store = store

    def begin(self, on_taken: Callable[[Snapshot], None] | None = None) -> None:
        """Begin to take the snapshot, of a server that has started, and to call `on_taken`."""
        if self._store is not None:
            self._task = asyncio.create_task(self._take(self._store, on_taken))

    async def _take(
        self, store: MemoryStore, on_taken: Callable[[Snapshot], None] | None
    ) -> Snapshot:
        await self._settle()
        snapshot = store.snapshot()
        if on_taken is not None:
            on_taken(snapshot)
        return snapshot

    @property
    def is_pending(self) -> bool:
        """Whether controllers may still create what every cluster has."""
        return self._task is not None and not self._task.done()

    @property
    def is_taken(self) -> bool:
        """Whether the snapshot has been taken."""
        return self._task is not None and self._task.done()

    async def wait(self) -> None:
        """Return when the snapshot is taken; at once if the store is not in memory."""
        if self._task is not None:
            await asyncio.shield(self._task)

    @property
    def store(self) -> MemoryStore:
        """The store. Raises RuntimeError if it is not in memory."""
        if self._store is None:
            raise RuntimeError(_NOT_IN_MEMORY)
        return self._store

    async def snapshot(self) -> Snapshot:
        """Return the snapshot when it is taken. Raises RuntimeError if the store is not in
        memory."""
        if self._task is None:
            raise RuntimeError(_NOT_IN_MEMORY)
        return await asyncio.shield(self._task)

    def revision(self) -> int:
        """Return the revision of the store, 0 if it is not in memory."""
        return 0 if self._store is None else self._store.revision

    def cancel(self) -> None:
        """Stop taking the snapshot."""
        if self._task is not None:
            self._task.cancel()

    async def close(self) -> None:
        """Return when the snapshot is no longer being taken."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
