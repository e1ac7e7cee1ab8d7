"""Turns of the writers of one key, so that they need not race.

A write reads the object, changes it, and stores it if its revision is unchanged. Of sixty writers
that do so at the same time, one succeeds, and the others have worked for nothing. So a writer takes
the key's turn first. The next in line gets it when the write has ended, and starts from the result.

A turn saves work. It does not protect the object: the store compares revisions anyway, and another
server knows nothing of turns. Therefore a writer may give up its turn at any time, and risks no
more than another try. It does so before it waits for anything that may wait for a writer: another
turn, or a webhook, which may itself update the object. A writer that waits holds no turn, so turns
cannot deadlock. Decision 104 has the details.

| state   | how a turn gets there                                                         |
|---------|-------------------------------------------------------------------------------|
| idle    | new, given up, or too many were waiting: the writer races                     |
| waiting | `take` while another turn is held                                             |
| held    | `take` while no other turn is held, or its holder gave up and it is the first |
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextvars import ContextVar, Token

from kapiserver.storage.cache.entry import Entry

MAX_WAITING = 1024
"""Writers that wait for one key; more of them race."""


class Turn:
    """The turn of one write at its key. Its `with` block ends with giving it up.

    latest  the entry that the last holder wrote or read; None if there is none
    """

    __slots__ = (
        "_holders",
        "_is_held",
        "_outer",
        "_path",
        "_ready",
        "_token",
        "_waiting",
        "latest",
    )

    def __init__(self, holders: dict[str, Turn], path: str) -> None:
        self._holders = holders
        self._path = path
        self._is_held = False
        self._waiting: deque[Turn] | None = None
        """The turns behind this one while it is held; made for the first of them."""
        self._ready: asyncio.Future[None] | None = None
        self._outer: Turn | None = None
        self._token: Token[Turn | None] | None = None
        self.latest: Entry | None = None

    def __enter__(self) -> Turn:
        self._outer = _CURRENT.get()
        self._token = _CURRENT.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._token is not None
        _CURRENT.reset(self._token)
        self.give_up()
        # Tasks that the write started keep this turn in their context, but nothing else.
        self._outer = self._token = self.latest = None

    async def take(self) -> None:
        """Wait until it is this write's turn. Returns at once if it is, or if MAX_WAITING wait."""
        if self._is_held:
            return
        if self._path in self._holders and self._outer is not None:
            self._outer.give_up_all()
        holder = self._holders.setdefault(self._path, self)
        if holder is self:
            self._is_held = True
            return
        if holder._waiting is None:
            holder._waiting = deque()
        if len(holder._waiting) < MAX_WAITING:
            self._ready = asyncio.get_running_loop().create_future()
            holder._waiting.append(self)
            await self._ready

    def newest(self, entry: Entry | None) -> Entry | None:
        """Return the newer of an entry of the watch cache, which may be behind, and `latest`."""
        latest = self.latest
        if latest is None or (entry is not None and entry.revision >= latest.revision):
            return entry
        return latest

    def give_up(self) -> None:
        """Pass the turn, if it is held, to the next writer that still waits."""
        if not self._is_held:
            return
        self._is_held = False
        latest, self.latest = self.latest, None
        waiting, self._waiting = self._waiting, None
        while waiting:
            following = waiting.popleft()
            if following._ready is not None and not following._ready.done():  # else cancelled
                # It holds the turn from now on: if it is cancelled before it runs, it gives it up.
                following._is_held = True
                following._waiting = waiting
                following.latest = latest
                following._ready.set_result(None)
                self._holders[self._path] = following
                return
        del self._holders[self._path]

    def give_up_all(self) -> None:
        """Give up this turn and those of the writes within which this one happens."""
        turn: Turn | None = self
        while turn is not None:
            turn.give_up()
            turn = turn._outer


_CURRENT: ContextVar[Turn | None] = ContextVar("WRITE_TURN", default=None)
"""The turn of the innermost write that the running task is part of."""


class WriteTurns:
    """The turns at the keys of one resource."""

    def __init__(self) -> None:
        self._holders: dict[str, Turn] = {}

    def turn(self, path: str) -> Turn:
        """Return an idle turn at a key."""
        return Turn(self._holders, path)


def give_up_turns() -> None:
    """Give up the turns that the running task holds. Code that sends a request to another program
    calls it first, because that program may write the same object."""
    turn = _CURRENT.get()
    if turn is not None:
        turn.give_up_all()
