"""Translates the errors of PostgreSQL and of asyncpg to those of the storage contract."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg

from kapiserver.storage.errors import Refused, Unavailable, ValueTooLarge

_REFUSED = ("28", "3D", "42501", "53100", "53200", "25006")
"""The beginnings of the SQLSTATE of errors for which a retry does not help: authorization, no such
database, permission, a full disk, lack of memory, a server that only reads. Source: Appendix A of
PostgreSQL's documentation."""
_TOO_LARGE = ("54", "22001", "XX000: invalid memory alloc")
"""Those of a value or key beyond a limit."""
UNKNOWN_OUTCOME = "it is not known whether the write was made"


@contextmanager
def translate_errors(*, writing: bool = False) -> Iterator[None]:
    """Translate the errors of a statement to Refused, ValueTooLarge or Unavailable.

    writing     whether the statement writes: if its connection breaks or it takes too long, the
                message says that its outcome is unknown
    """
    unknown = f"; {UNKNOWN_OUTCOME}" if writing else ""
    try:
        yield
    except asyncpg.PostgresError as error:
        state = error.sqlstate or ""
        if state.startswith(_REFUSED):
            raise Refused(f"postgresql: {error}") from error
        if state.startswith(_TOO_LARGE):
            raise ValueTooLarge(f"postgresql: {error}") from error
        is_broken = isinstance(error, asyncpg.PostgresConnectionError)
        raise Unavailable(f"postgresql: {error}{unknown if is_broken else ''}") from error
    except TimeoutError as error:
        raise Unavailable(f"postgresql: no answer in time{unknown}") from error
    except (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
        # An internal error of asyncpg tells of a connection that ends while a statement begins.
        raise Unavailable(f"postgresql: {error}{unknown}") from error
