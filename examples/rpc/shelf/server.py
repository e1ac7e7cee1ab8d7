"""The implementation of the group shelf, for all of its versions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from kapiserver.rpc.registration import Call, RPCError

from . import types


class Server:
    """Keeps books in memory, at most `LIMIT`."""

    LIMIT = 1000

    def __init__(self) -> None:
        self._books: list[types.Book] = []
        self._added = asyncio.Condition()

    async def add_book(self, request: types.AddBookRequest, call: Call) -> types.AddBookResponse:
        """Add a book. Its id is its position."""
        book = request.book
        if book is None or not book.title:
            raise RPCError("INVALID_ARGUMENT", "book.title: Required value")
        if len(self._books) == self.LIMIT:
            raise RPCError("RESOURCE_EXHAUSTED", f"the shelf holds at most {self.LIMIT} books")
        if book.author and not book.authors:  # a client from before `authors`
            book.authors = [book.author]
        async with self._added:
            self._books.append(book)
            self._added.notify_all()
        return types.AddBookResponse(id=str(len(self._books) - 1))

    def list_books(self, request: types.ListBooksRequest, call: Call) -> types.ListBooksResponse:
        """Return all books."""
        return types.ListBooksResponse(books=list(self._books))

    async def watch_books(
        self, request: types.WatchBooksRequest, call: Call
    ) -> AsyncIterator[types.WatchBooksResponse]:
        """Yield the books, and those that are added later. 0 is no limit."""
        position = 0
        while request.limit <= 0 or position < request.limit:
            async with self._added:
                while position == len(self._books):
                    await self._added.wait()
            yield types.WatchBooksResponse(id=str(position), book=self._books[position])
            position += 1
