"""The parts of URLs that requests to other servers need. Knows no connection."""

from __future__ import annotations

import functools
from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit

_SAFE = "%/:=&?~#+!$,;'@()*[]"


class UrlParts(NamedTuple):
    """The parts of a URL; `path` includes the query, `user_info` is what stands before @."""

    scheme: str
    host: str
    port: int
    host_header: str
    path: str
    user_info: str


@functools.lru_cache(maxsize=1024)
def split_url(url: str) -> UrlParts:
    """Return the parts of an HTTP or HTTPS URL. Raises ValueError."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme not in ("http", "https") or not host:
        raise ValueError(f"invalid URL: {url}")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    path = quote(parts.path or "/", safe=_SAFE)
    if parts.query:
        path += "?" + quote(parts.query, safe=_SAFE)
    user_info, _, address = parts.netloc.rpartition("@")
    host_header = address.encode("idna").decode()
    return UrlParts(parts.scheme, host, port, host_header, path, unquote(user_info))
