"""Keys, values and events, as the rows of the tables have them. Each row has a checksum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias
from zlib import crc32

import asyncpg

from kapiserver.storage.errors import Corrupt
from kapiserver.storage.kv.contract import KeyValue, KVEvent, Revision

Version: TypeAlias = tuple[bytes, int]
"""What was written at a revision: the key, and the checksum of key and value."""


def encoded_key(key: str) -> bytes:
    """Return a key as the tables hold it."""
    return key.encode(errors="surrogateescape")


def decoded_key(key: bytes) -> str:
    """Return a key of the tables."""
    return key.decode(errors="surrogateescape")


def checksum(key: bytes, value: bytes | None) -> int:
    """Return the checksum of a version of a key: CRC-32 of the key, the size and the value."""
    size = -1 if value is None else len(value)
    return crc32(value or b"", crc32(b"%d %s" % (size, key)))


def key_value(row: asyncpg.Record) -> KeyValue:
    """Return the pair of a row. Raises Corrupt for a row that differs from its checksum."""
    key = _checked_key(row)
    return KeyValue(key, row["value"], row["revision"])


def key_values(rows: Sequence[asyncpg.Record]) -> list[KeyValue]:
    """Return the pairs of rows. Raises Corrupt."""
    return list(map(key_value, rows))


def event(row: asyncpg.Record) -> KVEvent:
    """Return the event of a row, with the old value if the row has one. Raises Corrupt."""
    key = _checked_key(row)
    before = row.get("before")
    return KVEvent(key, Revision(row["revision"]), row["value"], before)


def version(written: KVEvent) -> Version:
    """Return the version that an event tells of."""
    key = encoded_key(written.key)
    return key, checksum(key, written.value)


def _checked_key(row: asyncpg.Record) -> str:
    key: bytes = row["key"]
    text = decoded_key(key)
    if checksum(key, row["value"]) != row["checksum"]:
        raise Corrupt(f"{text} at revision {row['revision']} differs from its checksum")
    return text
