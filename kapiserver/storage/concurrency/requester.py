"""For whom the running task works: what takes turns does so between users."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

from kapiserver.storage.concurrency.fair_queue import SYSTEM


def _never() -> bool:
    return False


class Requester:
    """The requester of work: the user's name, whether their client has gone, and whether all of the
    work runs in threads."""

    __slots__ = ("has_gone", "is_first", "user")

    def __init__(self, user: str, has_gone: Callable[[], bool] = _never) -> None:
        self.user = user
        self.has_gone = has_gone
        self.is_first = False


_SERVER = Requester(SYSTEM)
REQUESTER: ContextVar[Requester] = ContextVar("REQUESTER", default=_SERVER)
"""The requester that the running task works for; the user SYSTEM for the server's own work."""
