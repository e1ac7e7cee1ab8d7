"""Threads that read a store's SQLite file, each on its own connection."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from kapiserver.storage.kv.remaining_count import RemainingCounts
from kapiserver.storage.sqlite.database import Database

T = TypeVar("T")


class Readers:
    """Reader threads, each with its own connection."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._thread_local = threading.local()
        self._counts = RemainingCounts()
        self._databases: list[Database] = []
        self.pool = ThreadPoolExecutor(2, "store-reader")

    def run(self, query: Callable[[Database], T]) -> T:
        """Return `query(database)`, on the connection of the current thread."""
        database: Database | None = getattr(self._thread_local, "database", None)
        if database is None:
            database = self._thread_local.database = Database(self._path, self._counts, first=False)
            self._databases.append(database)
        return query(database)

    def close(self) -> None:
        """Wait for the threads, and close their connections."""
        self.pool.shutdown()
        for database in self._databases:
            database.close()
