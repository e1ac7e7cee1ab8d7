"""The OpenAPI documents of one server, which live as long as the server: a process may open and
close many clusters."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from kapiserver.apiserver.discovery.merged_openapi import MergedOpenAPI
    from kapiserver.apiserver.discovery.openapi_documents import OpenAPIDocuments

    Documents: TypeAlias = tuple[OpenAPIDocuments, MergedOpenAPI]


class OpenAPICache:
    """The documents of the server itself, and those merged with documents of extension API
    servers."""

    def __init__(self) -> None:
        self._documents: Documents | None = None

    def get(self, make: Callable[[], Documents]) -> Documents:
        """Return the documents, which `make` makes for the first request."""
        if self._documents is None:
            self._documents = make()
        return self._documents
