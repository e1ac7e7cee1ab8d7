"""The messages of PostgreSQL's protocol that this server writes and reads without asyncpg.

Knows no connection. Source: PostgreSQL's documentation, "Message Formats" and, for arrays,
`array_send` of src/backend/utils/adt/arrayfuncs.c.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct, pack, unpack_from
from typing import TypeAlias

import asyncpg

Row: TypeAlias = tuple[bytes | None, ...]
"""The columns of a row, as PostgreSQL sends them; None is NULL."""

BYTEA, BIGINT, DOUBLE = 17, 20, 701
"""The object identifiers of types."""
_EXECUTE_AND_SYNC = b"E\0\0\0\x09\0\0\0\0\0S\0\0\0\4"
_BINARY = b"\0\1\0\1"
"""One code for the format of all parameters, or columns: binary."""
_length = Struct("!i").pack
_NULL = _length(-1)
_array_head = Struct("!iiIii").pack


def execution(statement: str, parameters: Sequence[bytes] = ()) -> bytes:
    """Return the messages Bind, Execute and Sync for a prepared statement."""
    parts = [b"\0", statement.encode(), b"\0", _BINARY, pack("!h", len(parameters))]
    for parameter in parameters:
        parts += (_length(len(parameter)), parameter)
    parts.append(_BINARY)
    size = 4 + sum(map(len, parts))
    return b"".join((b"B", _length(size), *parts, _EXECUTE_AND_SYNC))


def bytea_array(values: Sequence[bytes | None]) -> bytes:
    """Return an array as a parameter."""
    parts = [_array_head(1, None in values, BYTEA, len(values), 1)]
    for value in values:
        parts += (_NULL,) if value is None else (_length(len(value)), value)
    return b"".join(parts)


def bigint_array(values: Sequence[int]) -> bytes:
    """Return an array as a parameter."""
    return _number_array(BIGINT, "q", values)


def double_array(values: Sequence[float]) -> bytes:
    """Return an array as a parameter."""
    return _number_array(DOUBLE, "d", values)


def _number_array(type_id: int, code: str, values: Sequence[float]) -> bytes:
    elements = [part for value in values for part in (8, value)]
    head = _array_head(1, 0, type_id, len(values), 1)
    return head + pack("!" + f"i{code}" * len(values), *elements)


def split(data: bytes) -> tuple[list[tuple[int, bytes]], bytes]:
    """Return the types and contents of whole messages, and the rest of the data."""
    messages, at = [], 0
    while len(data) >= at + 5:
        end = at + 1 + int.from_bytes(data[at + 1 : at + 5])
        if len(data) < end:
            break
        messages.append((data[at], data[at + 5 : end]))
        at = end
    return messages, data[at:]


def row(content: bytes) -> Row:
    """Return the columns of a message DataRow."""
    return tuple(_columns(content))


def _columns(content: bytes) -> Iterator[bytes | None]:
    at = 2
    for _ in range(int.from_bytes(content[:2])):
        (size,) = unpack_from("!i", content, at)
        at += 4
        if size < 0:
            yield None
        else:
            yield content[at : at + size]
            at += size


def error(content: bytes) -> asyncpg.PostgresError:
    """Return the error of a message ErrorResponse, as asyncpg raises it."""
    fields = [field for field in content.split(b"\0") if field]
    return asyncpg.PostgresError.new(
        {chr(field[0]): field[1:].decode(errors="replace") for field in fields}
    )
