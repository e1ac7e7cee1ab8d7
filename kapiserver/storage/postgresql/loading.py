"""Fills an empty store with objects at the revisions of another (`storage/kv/copying.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kapiserver.storage.kv.contract import KeyValue
from kapiserver.storage.postgresql.rows import checksum, encoded_key

BEGIN_LOAD = """
WITH begun AS (
    UPDATE {schema}.state s SET revision = $1 FROM {schema}.compaction k
    WHERE (s.revision, k.revision) IN ((1, 0), ($1, $1)) RETURNING s.revision
), compacted AS (
    UPDATE {schema}.compaction SET revision = $1 WHERE EXISTS (SELECT FROM begun)
)
SELECT EXISTS (SELECT FROM begun) AS is_begun
"""
LOAD = """
WITH item AS (
    SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::bytea[], $4::bigint[], $5::float8[])
        AS item (key, revision, value, checksum, expires)
), logged AS (
    INSERT INTO {schema}.log (revision, key, previous, deleted, checksum, value)
    SELECT revision, key, 0, false, checksum, value FROM item ON CONFLICT DO NOTHING
), expiring AS (
    INSERT INTO {schema}.expiry SELECT revision, expires FROM item WHERE expires > 0
    ON CONFLICT DO NOTHING
)
INSERT INTO {schema}.current SELECT key, revision FROM item ON CONFLICT DO NOTHING
"""


def loaded_columns(items: Sequence[KeyValue], expires: Sequence[float]) -> tuple[list[Any], ...]:
    """Return the arguments of `LOAD`."""
    keys = [encoded_key(item.key) for item in items]
    return (
        keys,
        [item.revision for item in items],
        [item.value for item in items],
        [checksum(key, item.value) for key, item in zip(keys, items, strict=True)],
        list(expires),
    )
