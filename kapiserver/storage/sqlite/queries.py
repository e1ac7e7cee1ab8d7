"""The queries of the embedded store, over the tables of `storage/sqlite/layout.py`."""

from __future__ import annotations

import functools

NEWEST_REVISION = "SELECT max(revision) FROM log"
COMPACTED = "SELECT compacted FROM state"
CURRENT = """
SELECT log.revision, log.value, log.previous, log.checksum
FROM current LEFT JOIN log ON log.revision = current.revision WHERE current.key = ?
"""
CURRENT_OF_KEYS = """
SELECT current.key, log.revision, log.value, log.previous, log.checksum
FROM current LEFT JOIN log ON log.revision = current.revision WHERE current.key IN ({?})
"""
AT_REVISION = """
SELECT revision, value, previous, checksum
FROM log WHERE key = ? AND revision <= ? ORDER BY revision DESC LIMIT 1
"""
PAGE = """
SELECT current.key, log.value, log.revision, log.previous, log.checksum
FROM current LEFT JOIN log ON log.revision = current.revision
WHERE current.key >= :first AND current.key < :end ORDER BY current.key LIMIT :limit
"""
COUNT = "SELECT count(*) FROM current WHERE key > :last AND key < :end"
# Skips from key to key, so that a key with a long history costs no more than one without.
PAGE_AT_REVISION = """
WITH RECURSIVE keys (key) AS (
    SELECT min(key) FROM log WHERE key >= :first AND key < :end
    UNION ALL
    SELECT (SELECT min(key) FROM log WHERE key > keys.key AND key < :end)
    FROM keys WHERE keys.key IS NOT NULL
)
SELECT newest.key, log.value, log.revision, log.previous, log.checksum FROM (
    SELECT key, (
        SELECT max(revision) FROM log INDEXED BY log_by_key
        WHERE key = keys.key AND revision <= :revision
    ) AS revision FROM keys
) AS newest LEFT JOIN log ON log.revision = newest.revision
WHERE newest.revision IS NOT NULL AND log.deleted IS NOT TRUE LIMIT :limit
"""
# The current count, minus the keys created since, plus the keys deleted since.
COUNT_AT_REVISION = """
SELECT (SELECT count(*) FROM current WHERE key > :last AND key < :end) - (
    SELECT coalesce(sum(CASE WHEN deleted THEN -1 ELSE previous = 0 END), 0) FROM log NOT INDEXED
    WHERE revision > :revision AND key > :last AND key < :end
)
"""
CHANGES = """
SELECT log.key, log.revision, log.value, log.previous, log.checksum,
    before.revision, before.value, before.previous, before.checksum
FROM log LEFT JOIN log AS before ON before.revision = log.previous
WHERE log.revision > ? AND log.revision <= ? AND log.key >= ? AND log.key < ?
ORDER BY log.revision LIMIT ?
"""
INSERT_PROBE_ROWS = """
WITH RECURSIVE numbers (number) AS (VALUES (-1) UNION ALL SELECT number - 1 FROM numbers LIMIT 4000)
INSERT INTO expiry SELECT number, 9e99, 0 FROM numbers
"""
INSERT_VERSIONS = "INSERT INTO log VALUES {(?, ?, ?, ?, ?, ?)}"
INSERT_CURRENTS = """
INSERT INTO current VALUES {(?, ?)} ON CONFLICT (key) DO UPDATE SET revision = excluded.revision
"""


@functools.lru_cache(maxsize=64)
def statement_for(template: str, rows: int) -> str:
    """Return a statement for this many rows: the part of the template in braces is repeated."""
    before, _, after = template.partition("{")
    row, _, end = after.partition("}")
    return before + ", ".join([row] * rows) + end
