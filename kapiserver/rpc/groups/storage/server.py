"""Maintains the store of the server that it runs in.

SQLite files are read through connections of their own, in threads; writes go through the store.
"""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kapiserver.apiserver.context import Server as ApiServer
from kapiserver.rpc.registration import Call, RPCError
from kapiserver.storage.backends import MEMORY
from kapiserver.storage.errors import Compacted, FutureRevision
from kapiserver.storage.kv.contract import Revision
from kapiserver.storage.objects.value_check import ValueCheck
from kapiserver.storage.sqlite.admin import Summary, backup, check, summarize

from . import types

_CHUNK = 1 << 20


class Server:
    """Implements the calls of storage for one server."""

    def __init__(self, server: ApiServer) -> None:
        self._kv = server.stores.kv
        self._root = server.config.store.key_root
        self._backend, _, self._location = server.config.store.storage.partition(":")
        self._copying = threading.Lock()
        """Held by Backup and Check, which fill the disk with a copy."""

    def backup(self, request: types.BackupRequest, call: Call) -> Iterator[types.BackupResponse]:
        """Yield a summary of the copy, then its bytes; runs in a thread. Raises RPCError,
        StorageError."""
        with self._copy("Backup") as (copy, summary):
            yield types.BackupResponse(
                revision=summary.revision, size=summary.size, sha256=_sha256(copy)
            )
            with copy.open("rb") as file:
                while data := file.read(_CHUNK):
                    yield types.BackupResponse(data=data)

    async def compact(self, request: types.CompactRequest, call: Call) -> types.CompactResponse:
        """Compact to the requested revision, or to the newest. Raises RPCError, StorageError."""
        revision = Revision(request.revision or await self._kv.current_revision())
        if revision < 0:
            raise RPCError("INVALID_ARGUMENT", "revision: must not be negative")
        try:
            await self._kv.compact(revision)
        except FutureRevision:
            raise RPCError(
                "OUT_OF_RANGE", f"revision: {revision} is newer than the store"
            ) from None
        except Compacted:  # etcd: it is done already
            pass
        return types.CompactResponse(revision=max(self._kv.compacted, revision))

    def check(self, request: types.CheckRequest, call: Call) -> types.CheckResponse:
        """Return the problems of a copy of the store; runs in a thread. Raises RPCError,
        StorageError."""
        with self._copy("Check") as (copy, _):
            return types.CheckResponse(problems=list(check(copy, ValueCheck(), _ignore)))

    async def stats(self, request: types.StatsRequest, call: Call) -> types.StatsResponse:
        """Return figures of the store. Raises StorageError."""
        if self._backend == "sqlite" and self._location != MEMORY:
            summary = await asyncio.to_thread(summarize, Path(self._location))
            return _stats(summary, _size(Path(self._location)))
        read = await self._kv.range(f"{self._root}/", limit=1)
        return types.StatsResponse(
            backend=self._backend,
            revision=read.revision,
            compacted=self._kv.compacted,
            objects=len(read.items) + read.remaining,
        )

    async def defragment(
        self, request: types.DefragmentRequest, call: Call
    ) -> types.DefragmentResponse:
        """Return free pages to the file system. Raises RPCError, StorageError."""
        path = self._path("Defragment")
        old_size = _size(path)
        # A compaction to the revision that is compacted already frees pages and nothing else.
        await self._kv.compact(self._kv.compacted)
        return types.DefragmentResponse(old_size=old_size, new_size=_size(path))

    @contextmanager
    def _copy(self, call: str) -> Iterator[tuple[Path, Summary]]:
        """Yield the path of a copy of the store, which lies beside the store, and its summary. The
        copy that a crashed server left is removed. Raises RPCError, StorageError."""
        path = self._path(call)
        if not self._copying.acquire(blocking=False):
            raise RPCError("ABORTED", "another Backup or Check is running; try again later")
        folder = path.with_name(f"{path.name}.copy")
        try:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(mode=0o700)
            copy = folder / path.name
            yield copy, backup(path, copy, _ignore)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            self._copying.release()

    def _path(self, call: str) -> Path:
        """Return the SQLite file of the store. Raises RPCError."""
        if self._backend != "sqlite" or self._location == MEMORY:
            raise RPCError(
                "FAILED_PRECONDITION",
                f"{call} needs a store in a SQLite file; this server has {self._backend}"
                f"{':' + MEMORY if self._location == MEMORY else ', which has tools of its own'}",
            )
        return Path(self._location)


def _ignore(_step: str, _done: int, _total: int) -> None:
    """Report no progress."""


def _sha256(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def _stats(summary: Summary, size: int) -> types.StatsResponse:
    return types.StatsResponse(
        backend="sqlite",
        revision=summary.revision,
        compacted=summary.compacted,
        objects=summary.objects,
        versions=summary.versions,
        size=size,
        free=summary.free,
    )


def _size(path: Path) -> int:
    """Return the bytes of a store and its write-ahead log."""
    log = path.with_name(f"{path.name}-wal")
    return path.stat().st_size + (log.stat().st_size if log.exists() else 0)
