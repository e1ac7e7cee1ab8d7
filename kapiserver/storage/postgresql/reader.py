"""The reads of a store: each is one statement, and so of one snapshot of the database.

A row of each statement has the newest and the compacted revision of its snapshot, because a reader
must know of which revision its rows are, and whether that could be read.
"""

from __future__ import annotations

import asyncpg

from kapiserver.storage.errors import Compacted, FutureRevision
from kapiserver.storage.kv.contract import (
    GetResult,
    HistoryPage,
    RangeResult,
    Revision,
)
from kapiserver.storage.kv.prefix import prefix_end
from kapiserver.storage.kv.remaining_count import RemainingCounts
from kapiserver.storage.kv.writes import Write
from kapiserver.storage.postgresql.connections import Connections
from kapiserver.storage.postgresql.rows import (
    Version,
    decoded_key,
    encoded_key,
    event,
    key_value,
    key_values,
)

_NO_LIMIT = 1 << 62
_NEWEST = "SELECT revision FROM {schema}.state ORDER BY revision DESC LIMIT 1"
_SNAPSHOT = f"({_NEWEST}) AS newest, (SELECT revision FROM {{schema}}.compaction) AS compacted"
_LAST = f"""
SELECT s.revision AS newest, n.key AS newest_key, n.checksum AS newest_checksum, l.key, l.checksum
FROM ({_NEWEST}) s
LEFT JOIN {{schema}}.log n ON n.revision = s.revision
LEFT JOIN {{schema}}.log l ON l.revision = $1
"""
_GET = f"""
SELECT s.revision AS newest, c.key, l.revision, l.value, l.checksum
FROM ({_NEWEST}) s
LEFT JOIN {{schema}}.current c ON c.key = $1
LEFT JOIN {{schema}}.log l ON l.revision = c.revision
"""
_GET_AT_REVISION = f"""
SELECT {_SNAPSHOT}, l.key, l.revision, l.value, l.checksum
FROM (SELECT) one LEFT JOIN (
    SELECT revision FROM {{schema}}.current WHERE key = $1 AND revision <= $2
    UNION ALL
    SELECT previous FROM {{schema}}.log
    WHERE key = $1 AND revision > $2 AND previous > 0 AND previous <= $2
) version ON true LEFT JOIN {{schema}}.log l ON l.revision = version.revision
"""
_PAGE = f"""
SELECT {_SNAPSHOT}, {{count}} AS number, c.key, l.revision, l.value, l.checksum
FROM {{schema}}.current c JOIN {{schema}}.log l ON l.revision = c.revision
WHERE c.key >= $1 AND c.key < $2 ORDER BY c.key LIMIT $3
"""
_COUNT = "(SELECT count(*) FROM {schema}.current WHERE key >= $1 AND key < $2)"
# The versions that are still current, and those that were replaced since. Each part walks an index
# as far as the page may reach.
_PAGE_AT_REVISION = f"""
SELECT {_SNAPSHOT}, {{count}} AS number, l.key, l.revision, l.value, l.checksum
FROM (
    (
        SELECT key, revision FROM {{schema}}.current
        WHERE key >= $1 AND key < $2 AND revision <= $4 ORDER BY key LIMIT $3
    ) UNION ALL (
        SELECT key, previous FROM {{schema}}.log
        WHERE key >= $1 AND key < $2 AND revision > $4 AND previous > 0 AND previous <= $4
        ORDER BY key LIMIT $3
    ) ORDER BY key LIMIT $3
) version JOIN {{schema}}.log l ON l.revision = version.revision
ORDER BY version.key
"""
# The current count, minus the keys created since, plus the keys deleted since.
_COUNT_AT_REVISION = f"""({_COUNT} - (
    SELECT coalesce(sum(CASE WHEN deleted THEN -1 WHEN previous = 0 THEN 1 ELSE 0 END), 0)
    FROM {{schema}}.log WHERE revision > $4 AND key >= $1 AND key < $2
))"""
_EMPTY = f"""
SELECT {_SNAPSHOT},
    EXISTS (SELECT FROM {{schema}}.current WHERE key >= $1 AND key < $2) AS has_keys
"""
_CHANGES = f"""
SELECT {_SNAPSHOT}, l.key, l.revision, l.value, l.checksum
FROM {{schema}}.log l
WHERE l.revision > $1 AND l.revision <= $2 AND l.key >= $3 AND l.key < $4
ORDER BY l.revision LIMIT $5
"""
_CHANGES_WITH_PREVIOUS = f"""
SELECT {_SNAPSHOT}, l.key, l.revision, l.value, l.checksum, b.value AS before
FROM {{schema}}.log l LEFT JOIN {{schema}}.log b ON b.revision = l.previous
WHERE l.revision > $1 AND l.revision <= $2 AND l.key >= $3 AND l.key < $4
ORDER BY l.revision LIMIT $5
"""
_EXPIRED = """
SELECT e.revision, l.key, c.revision IS NOT NULL AS is_current
FROM {schema}.expiry e
LEFT JOIN {schema}.log l ON l.revision = e.revision
LEFT JOIN {schema}.current c ON c.key = l.key AND c.revision = l.revision
WHERE e.at <= $1 ORDER BY e.at LIMIT $2
"""


class Reader:
    """The reads of one store."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._counts = RemainingCounts()
        fill = connections.statement
        self._newest = fill(_NEWEST)
        self._state = fill(f"SELECT {_SNAPSHOT}")
        self._get = fill(_GET)
        self._get_at_revision = fill(_GET_AT_REVISION)
        self._pages = {
            (at_revision, counted): fill(
                (_PAGE_AT_REVISION if at_revision else _PAGE).replace(
                    "{count}", (count if counted else "NULL::bigint")
                )
            )
            for at_revision, count in ((False, _COUNT), (True, _COUNT_AT_REVISION))
            for counted in (False, True)
        }
        self._empty = fill(_EMPTY)
        self._changes = {False: fill(_CHANGES), True: fill(_CHANGES_WITH_PREVIOUS)}
        self._expired = fill(_EXPIRED)
        self._forget = fill("DELETE FROM {schema}.expiry WHERE revision = ANY ($1)")
        self._next_expiry = fill("SELECT min(at) AS at FROM {schema}.expiry")
        self._last = fill(_LAST)

    async def revision(self) -> Revision:
        """Return the newest revision. One caller at a time."""
        return Revision(await self._connections.read_number(self._newest))

    async def get(self, key: str, revision: Revision | None) -> GetResult:
        """Return one key. Raises Compacted, FutureRevision."""
        if revision is None:
            (row,) = await self._connections.read(self._get, encoded_key(key))
        else:
            (row,) = await self._connections.read(self._get_at_revision, encoded_key(key), revision)
        item = None if row["value"] is None else key_value(row)
        return GetResult(item, _check_readable(row, revision))

    async def range(
        self, prefix: str, start: str, limit: int, revision: Revision | None
    ) -> RangeResult:
        """Return one page of a range. Raises Compacted, FutureRevision."""
        first, end = max(prefix, start), prefix_end(prefix)
        number = self._counts.get(first, end, revision) if revision is not None else -1
        query = self._pages[(revision is not None, bool(limit) and number < 0)]
        args = [encoded_key(first), end.encode(), limit or _NO_LIMIT]
        rows = await self._connections.read(query, *args, *([revision] if revision else []))
        if not rows:
            return await self._empty_range(prefix, start, limit, revision)
        newest = _check_readable(rows[0], revision)
        items = key_values(rows)
        remaining = 0
        if limit:
            remaining = (rows[0]["number"] if number < 0 else number) - len(items)
            self._counts.put(f"{items[-1].key}\0", end, newest, remaining)
        return RangeResult(items, newest, remaining)

    async def _empty_range(
        self, prefix: str, start: str, limit: int, revision: Revision | None
    ) -> RangeResult:
        """Return a range that had no keys. The rows of a page say of which revision they are; where
        there are none, another statement has to say so, and that there are still none."""
        first, end = encoded_key(max(prefix, start)), prefix_end(prefix).encode()
        (row,) = await self._connections.read(self._empty, first, end)
        if revision is None and row["has_keys"]:
            return await self.range(prefix, start, limit, revision)
        return RangeResult([], _check_readable(row, revision), 0)

    async def history(
        self, prefix: str, after: Revision, until: Revision, limit: int, *, previous: bool
    ) -> HistoryPage:
        """Return the first `limit` events below `prefix` in (after, until], with their old values
        if `previous`. Raises Compacted."""
        rows = await self._connections.read(
            self._changes[previous],
            after,
            until,
            encoded_key(prefix),
            prefix_end(prefix).encode(),
            limit,
        )
        (state,) = rows[:1] or await self._connections.read(self._state)
        if after < state["compacted"]:
            raise Compacted(after, oldest=state["compacted"])
        events = list(map(event, rows))
        return HistoryPage(events, events[-1].revision if len(events) == limit else until)

    async def expired_writes(self, now: float, limit: int) -> list[Write]:
        """Return deletions of the first `limit` keys that expired by `now`. Drops the expiry of
        versions that were replaced since."""
        rows = await self._connections.read(self._expired, now, limit)
        replaced = [row["revision"] for row in rows if not row["is_current"]]
        if replaced:
            await self._connections.maintain(self._forget, replaced)
        return [
            Write(decoded_key(row["key"]), None, row["revision"])
            for row in rows
            if row["is_current"]
        ]

    async def next_expiry(self) -> float:
        """Return when the next key expires, in seconds since the epoch; infinity for never."""
        (row,) = await self._connections.read(self._next_expiry)
        return float("inf") if row["at"] is None else row["at"]

    async def newest(self) -> tuple[Revision, Version | None]:
        """Return the newest revision, and what was written at it."""
        (row,) = await self._connections.read(self._last, 0)
        return row["newest"], _version(row["newest_key"], row["newest_checksum"])

    async def seen_by(
        self, connection: asyncpg.Connection, revision: Revision
    ) -> tuple[Revision, Version | None, Version | None]:
        """Return the newest revision that a connection sees, what was written at it, and what was
        written at `revision`. Raises the errors of asyncpg."""
        row = await connection.fetchrow(self._last, revision)
        newest_version = _version(row["newest_key"], row["newest_checksum"])
        return row["newest"], newest_version, _version(row["key"], row["checksum"])


def _version(key: bytes | None, checksum: int) -> Version | None:
    return None if key is None else (key, checksum)


def _check_readable(row: asyncpg.Record, revision: Revision | None) -> Revision:
    """Return the revision that was read. Raises Compacted or FutureRevision for one that this
    snapshot cannot show."""
    newest: Revision = row["newest"]
    if revision is None:
        return newest
    if revision > newest:
        raise FutureRevision(revision, current=newest)
    if revision < row["compacted"]:
        raise Compacted(revision, oldest=row["compacted"])
    return revision
