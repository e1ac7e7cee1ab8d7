"""Internal types of the group shelf; they can represent all of its versions.

`kapiserver rpc generate` created this file. Edit it: it is not generated again.
"""

from __future__ import annotations

import dataclasses
from enum import IntEnum

from google.protobuf.timestamp_pb2 import Timestamp


class Binding(IntEnum):
    BINDING_UNSPECIFIED = 0
    HARDCOVER = 1
    PAPERBACK = 2


@dataclasses.dataclass(slots=True, kw_only=True)
class Book:
    title: str = ""
    pages: int = 0
    author: str = ""
    authors: list[str] = dataclasses.field(default_factory=list)
    binding: Binding | int = 0
    added: Timestamp | None = None


@dataclasses.dataclass(slots=True, kw_only=True)
class AddBookRequest:
    book: Book | None = None


@dataclasses.dataclass(slots=True, kw_only=True)
class AddBookResponse:
    id: str = ""


@dataclasses.dataclass(slots=True, kw_only=True)
class ListBooksRequest:
    pass


@dataclasses.dataclass(slots=True, kw_only=True)
class ListBooksResponse:
    books: list[Book] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(slots=True, kw_only=True)
class WatchBooksRequest:
    limit: int = 0


@dataclasses.dataclass(slots=True, kw_only=True)
class WatchBooksResponse:
    id: str = ""
    book: Book | None = None
