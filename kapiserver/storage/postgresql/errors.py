"""Translates the errors of PostgreSQL and of asyncpg to those of the storage contract.

    what happened                                     a read raises   a write raises
    no connection could be made, or it had ended      Disconnected    Disconnected
    no connection in time                             Unavailable     Unavailable
    the connection ended before the answer            Disconnected    OutcomeUnknown
    an error of PostgreSQL that a retry may mend      Unavailable     Unavailable
    one that a retry does not mend, as a full disk    Refused         Refused
    a damaged page or index                           Corrupt         Corrupt

A statement that ends with an error of PostgreSQL has written nothing: its transaction is undone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg

from kapiserver.storage.errors import Corrupt, OutcomeUnknown, Refused, Unavailable, ValueTooLarge

_REFUSED = ("28", "3D", "42501", "42704", "22023", "53100", "53200", "25006")
"""The beginnings of the SQLSTATE of errors for which a retry does not help: authorization, no such
database, permission, no such setting or a bad value of one, a full disk, lack of memory, a server
that only reads. Source: Appendix A of PostgreSQL's documentation."""
_LOST = ("57P", "53300")
"""Those of a server that starts or stops, or has no connection left."""
_TOO_LARGE = ("54", "22001")
"""Those of a key beyond a limit."""
_CORRUPT = ("XX001", "XX002")
"""Those of damaged pages and indexes."""

_REMEDIES = {
    "3D000": "create the database, or correct --storage",
    "28000": "create the role, allow it in pg_hba.conf, or correct --storage",
    "28P01": "correct the password in ~/.pgpass or PGPASSWORD",
    "42704": "correct the parameters in --storage",
    "22023": "correct the parameters in --storage",
    "25006": "--storage must name the primary",
    "53300": "raise max_connections of PostgreSQL, or lower --postgresql-max-connections",
}
"""What to do, by SQLSTATE, where PostgreSQL's message does not say it."""

_NOT_SENT = "cannot switch to state"
"""The internal error of asyncpg if a statement begins while PostgreSQL ends the connection."""


class Disconnected(Unavailable):
    """PostgreSQL cannot be reached, or ended the connection. A write was not sent."""


@contextmanager
def translate_errors(*, writing: bool = False) -> Iterator[None]:
    """Translate the errors of a statement, or of a connection that is made.

    writing     whether the statement writes, so that without an answer its outcome is unknown
    """
    try:
        yield
    except asyncpg.PostgresConnectionError as error:
        raise _lost(error, writing=writing) from error
    except asyncpg.PostgresError as error:
        if (error.sqlstate or "").startswith(_LOST):
            raise _lost(error, writing=writing) from error
        raise _refusal(error) from error
    except TimeoutError as error:
        raise Unavailable(f"postgresql: {str(error) or 'no connection in time'}") from error
    except asyncpg.InterfaceError as error:  # the connection was closed before
        raise _lost(error, writing=False) from error
    except (OSError, asyncpg.InternalClientError) as error:
        raise _lost(error, writing=writing and not str(error).startswith(_NOT_SENT)) from error


def _lost(error: Exception, *, writing: bool) -> Unavailable:
    message = _message(error)
    return OutcomeUnknown(message) if writing else Disconnected(message)


def _message(error: Exception) -> str:
    remedy = _REMEDIES.get(getattr(error, "sqlstate", None) or "")
    return f"postgresql: {error}; {remedy}" if remedy else f"postgresql: {error}"


def _refusal(error: asyncpg.PostgresError) -> Exception:
    state, message = error.sqlstate or "", _message(error)
    if state.startswith(_REFUSED):
        return Refused(message)
    if state.startswith(_TOO_LARGE):
        return ValueTooLarge(message)
    if state.startswith(_CORRUPT):
        return Corrupt(message)
    return Unavailable(message)
