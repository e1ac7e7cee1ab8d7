"""The body of one request: pieces that the client sends, and the handler that reads them.

Knows no HTTP library and no socket.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Protocol

from kapiserver.apiserver.errors import BadRequest, BodyTooLarge

UNREAD_BYTES = 256 << 10
"""While this many bytes of a body wait for their handler, the connection reads no more."""


class BodySource(Protocol):
    """The connection that a body comes from."""

    def pause_reading(self) -> None:
        """Stop reading from the client."""

    def resume_reading(self) -> None:
        """Read from the client again."""

    def send_continue(self) -> None:
        """Send "100 Continue"."""


class _NoSource:
    """Replaces the connection of a body that has none, or whose connection has ended."""

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def send_continue(self) -> None:
        pass


class RequestBody:
    """A body that may arrive while it is read.

    received    bytes of the body that have arrived
    is_complete whether nothing more of it arrives: it is whole, or broken
    """

    __slots__ = (
        "_expects_continue",
        "_failure",
        "_is_discarded",
        "_is_streamed",
        "_length",
        "_limit",
        "_pieces",
        "_source",
        "_unread",
        "_waiter",
        "is_complete",
        "received",
    )

    def __init__(self, source: BodySource, *, length: int | None, expects_continue: bool) -> None:
        """`length` is the Content-Length, None for a chunked body."""
        self._source = source
        self._length = length
        self._expects_continue = expects_continue
        self._pieces: list[bytes] = []
        self._limit: int | None = None
        self._failure = ""
        self._is_discarded = False
        self._is_streamed = False
        self._unread = 0
        self._waiter: asyncio.Future[None] | None = None
        self.received = 0
        self.is_complete = False

    async def read(self, limit: int) -> bytes:
        """Return the whole body; call it once. Raises BodyTooLarge for more than `limit` bytes,
        and BadRequest for a malformed or incomplete body."""
        if self._length is not None and self._length > limit:
            raise BodyTooLarge(limit)
        if self._expects_continue:
            self._source.send_continue()
        self._limit = limit
        self._source.resume_reading()  # also after a whole body: the client may go, or send more
        if self.received <= limit and not self.is_complete:
            await self._wait()
        if self._failure:
            raise BadRequest(self._failure)
        if self.received > limit:
            self._is_discarded = True
            self._pieces.clear()
            raise BodyTooLarge(limit)
        return self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives, in place of `read`; while the caller does not ask for more,
        the connection reads UNREAD_BYTES at most. Raises BadRequest for a malformed or incomplete
        body."""
        self._is_streamed = True
        if self._expects_continue:
            self._source.send_continue()
        while True:
            pieces, self._pieces, self._unread = self._pieces, [], 0
            self._source.resume_reading()  # also after a whole body: the client may go
            if pieces:
                yield b"".join(pieces)
            elif self._failure:
                raise BadRequest(self._failure)
            elif self.is_complete:
                return
            else:
                await self._wait()

    async def discard(self, limit: int) -> None:
        """Drop the rest of the body; return when it has arrived, or more than `limit` bytes."""
        self._is_discarded = True
        self._limit = self.received + limit
        self._pieces.clear()
        if not self.is_complete:
            self._source.resume_reading()
            await self._wait()

    def add(self, piece: bytes) -> None:
        """Add the next piece."""
        self.received += len(piece)
        if not self._is_discarded:
            self._pieces.append(piece)
            self._unread += len(piece)
        if self._limit is None:
            if self._unread > UNREAD_BYTES:
                self._source.pause_reading()
            if self._is_streamed:
                self._wake()
        elif self.received > self._limit:
            self._wake()

    def complete(self) -> None:
        """The last piece was added."""
        self.is_complete = True
        self._wake()

    def fail(self, message: str) -> None:
        """Record that the rest does not arrive: it is malformed, or the client has gone away."""
        self._failure = message
        self.complete()

    @property
    def is_broken(self) -> bool:
        """Whether the body ended before it was whole."""
        return bool(self._failure)

    async def _wait(self) -> None:
        waiter = self._waiter = asyncio.get_running_loop().create_future()
        try:
            await waiter
        finally:
            if (
                self._waiter is waiter
            ):  # a task that streamed the body may end after `discard` began
                self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


NO_SOURCE = _NoSource()
EMPTY_BODY = RequestBody(NO_SOURCE, length=0, expects_continue=False)
"""The body of all requests without one."""
EMPTY_BODY.complete()
