"""Translates the errors of SQLite to those of the storage contract."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from kapiserver.storage.errors import Damaged, Refused, Unavailable

_REFUSED_CODES = frozenset((sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY))
"""SQLite's error codes for lack of space, an exceeded quota, disk errors and lack of permission."""

_UNDECODABLE = "Could not decode to UTF-8"
"""Begins the message of Python's error for text that is not UTF-8, which has no code."""


@contextmanager
def translate_errors(where: object = "sqlite") -> Iterator[None]:
    """Translate SQLite's errors to Refused, Unavailable or Corrupt, prefixed with `where`."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _REFUSED_CODES:
            raise Refused(f"{where}: {error}") from error
        if str(error).startswith(_UNDECODABLE):
            raise Damaged(f"{where}: {error}") from error
        raise Unavailable(f"{where}: {error}") from error
    except sqlite3.DatabaseError as error:
        raise Damaged(f"{where}: {error}") from error
