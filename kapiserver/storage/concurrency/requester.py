"""For whom the running task works: what takes turns does so between users."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

from msgspec import Struct

from kapiserver.storage.concurrency.fair_queue import SYSTEM


def _never() -> bool:
    return False


class Requester(Struct, eq=False):
    """The requester of work: the user's name, whether their client has gone, and whether all of the
    work runs in threads."""

    user: str
    has_gone: Callable[[], bool] = _never
    is_first: bool = False


_SERVER = Requester(SYSTEM)
REQUESTER: ContextVar[Requester] = ContextVar("REQUESTER", default=_SERVER)
"""The requester that the running task works for; the user SYSTEM for the server's own work."""
