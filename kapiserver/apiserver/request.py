"""One request as filters and handlers see it; they know no HTTP library.

`listener.py` makes it from what the library read; authentication replaces `user`.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias
from urllib.parse import unquote, unquote_plus

from kapiserver.apiserver.request_info import RequestInfo

Query: TypeAlias = Mapping[str, Sequence[str]]
"""Query parameters, each with its values in the order given."""

Reader: TypeAlias = Callable[[int], Awaitable[bytes]]
"""Reads the whole body of at most that many bytes, once. Raises errors.BodyTooLarge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """Who asks. Mirrors user.Info of k8s.io/apiserver."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


UNAUTHENTICATED = "system:unauthenticated"
ANONYMOUS = User(name="system:anonymous", groups=(UNAUTHENTICATED,))
AUTHENTICATED = "system:authenticated"
MASTERS = "system:masters"


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """The subject of a client certificate that one of our client CAs signed."""

    common_name: str
    organizations: tuple[str, ...] = ()


class Warnings:
    """Texts for the client's Warning headers: no text twice, bounded in number and size."""

    LIMIT = 4096
    __slots__ = ("texts",)

    def __init__(self) -> None:
        self.texts: list[str] = []

    def add(self, text: str) -> None:
        """Tell the client; ignored beyond the bound, as kube-apiserver does."""
        # Names out of CBOR may hold bytes that are no text.
        text = text.encode("utf-8", "replace").decode()
        if text and text not in self.texts:
            size = sum(map(len, self.texts)) + len(text)
            if size <= self.LIMIT:
                self.texts.append(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request.

    headers     looked up without regard to case
    query       empty values included
    certificate of the client's end of the TLS connection; None where it showed none
    """

    method: str
    path: str
    query: Query
    headers: Mapping[str, str]
    info: RequestInfo
    read_body: Reader
    remote: str = ""
    certificate: Certificate | None = None
    user: User = ANONYMOUS
    audit_id: str = ""
    warnings: Warnings = field(default_factory=Warnings)

    def parameter(self, name: str) -> str:
        """The first value of a query parameter, or ""."""
        values = self.query.get(name)
        return values[0] if values else ""

    def header(self, name: str) -> str:
        """The first value of a header, or ""."""
        return self.headers.get(name) or ""


def parse_query(text: str) -> dict[str, list[str]]:
    """Read a query string as Go's url.ParseQuery does; pieces with a semicolon are dropped."""
    found: dict[str, list[str]] = {}
    if not text:
        return found
    for piece in text.split("&"):
        if not piece or ";" in piece:
            continue
        name, _, value = piece.partition("=")
        found.setdefault(unquote_plus(name), []).append(unquote_plus(value))
    return found


@functools.lru_cache(maxsize=1024)
def unquote_path(text: str) -> str:
    """The path of a request target, unquoted."""
    return unquote(text) if "%" in text else text
