"""The OpenAPI documents of one server, which live as long as the server: a process may open and
close many clusters."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

T = TypeVar("T")


class OpenAPICache:
    """The documents of one server, of a type that `discovery/openapi.py` alone knows."""

    def __init__(self) -> None:
        self._documents: object = None

    def get(self, make: Callable[[], T]) -> T:
        """Return the documents, which `make` makes for the first request. Each call has the same
        `make`."""
        if self._documents is None:
            self._documents = make()
        return cast(T, self._documents)
