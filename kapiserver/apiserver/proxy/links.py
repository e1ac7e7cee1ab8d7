"""Rewrites links to the proxied server, in the header Location and in pages of HTML.

A link to an absolute path of the proxied server leads to the path of the proxy, so that a browser
goes on through the proxy. Knows no request. Mirrors Transport of pkg/util/proxy of
k8s.io/apimachinery.
"""

from __future__ import annotations

import posixpath
import re
import zlib
from collections.abc import Iterator
from urllib.parse import SplitResult, quote, unquote, urlsplit, urlunsplit

from msgspec import Struct

from kapiserver.apiserver.proxy.html_tags import start_tags

MAX_HTML_BYTES = 1 << 20
"""Larger pages are passed on without a change."""

_SAFE_IN_PATHS = "$&+,/:;=@-_.~"
"""The characters that Go's net/url leaves in paths."""
_NEEDS_NO_QUOTES = re.compile(f"[A-Za-z0-9{re.escape(_SAFE_IN_PATHS)}]*")
_BAD_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})")
_GZIP, _DEFLATE = 31, -15
"""The `wbits` of zlib for a gzip header, and for none, as of Go's compress/flate."""

_ATTRIBUTES = {
    "a": {"href"},
    "applet": {"codebase"},
    "area": {"href"},
    "audio": {"src"},
    "base": {"href"},
    "blockquote": {"cite"},
    "body": {"background"},
    "button": {"formaction"},
    "command": {"icon"},
    "del": {"cite"},
    "embed": {"src"},
    "form": {"action"},
    "frame": {"longdesc", "src"},
    "head": {"profile"},
    "html": {"manifest"},
    "iframe": {"longdesc", "src"},
    "img": {"longdesc", "src", "usemap"},
    "input": {"src", "usemap", "formaction"},
    "ins": {"cite"},
    "link": {"href"},
    "object": {"classid", "codebase", "data", "usemap"},
    "q": {"cite"},
    "script": {"src"},
    "source": {"src"},
    "video": {"poster", "src"},
}
"""The attributes of HTML 4 and 5 that hold URLs, by tag."""


def quoted_path(path: str) -> str:
    """Return a path as Go's URL.EscapedPath quotes it."""
    if _NEEDS_NO_QUOTES.fullmatch(path):
        return path
    return quote(path, safe=_SAFE_IN_PATHS, errors="surrogateescape")


def join_path(prefix: str, path: str) -> str:
    """Return Go's path.Join of two paths, with the slash at the end of the second."""
    joined = posixpath.normpath(f"/{prefix.strip('/')}/{path.lstrip('/')}")
    joined = "/" + joined.lstrip("/")
    return joined + "/" if path.endswith("/") and joined != "/" else joined


class Links(Struct, frozen=True, kw_only=True):
    """How links of a proxied server are rewritten.

    prefix          the path of the proxy on this server
    server_host     host and port that the proxy connects to
    request_host    the header Host of the request
    """

    prefix: str
    server_host: str
    request_host: str

    def rewrite(self, url: str) -> str:
        """Return the URL that leads through the proxy, or the URL itself if it is relative, or that
        of another server. Raises ValueError for a malformed URL."""
        parts = _split(url)
        host = parts.netloc.rpartition("@")[2]
        is_other_host = bool(host) and host not in (self.server_host, self.request_host)
        if is_other_host or not parts.path.startswith("/"):
            return url
        if not host or host != self.request_host:
            parts = parts._replace(scheme="", netloc="")
        path = unquote(parts.path, errors="surrogateescape")
        if not path.startswith(self.prefix):
            parts = parts._replace(path=quoted_path(join_path(self.prefix, path)))
        return urlunsplit(parts)

    def rewrite_page(self, page: bytes, encoding: str) -> bytes | None:
        """Return a page of HTML with its links rewritten, in the same Content-Encoding. None for an
        encoding that is not known, and for content that is malformed or too large."""
        wbits = {"": None, "gzip": _GZIP, "deflate": _DEFLATE}.get(encoding, 0)
        if wbits == 0:
            return None
        if wbits is not None:
            decompressor = zlib.decompressobj(wbits)
            try:
                page = decompressor.decompress(page, MAX_HTML_BYTES + 1)
            except zlib.error:
                return None
            if len(page) > MAX_HTML_BYTES or not decompressor.eof:
                return None
        text = page.decode("utf-8", "surrogateescape")
        rewritten = "".join(self._pieces(text)).encode("utf-8", "surrogateescape")
        if wbits is None:
            return rewritten
        compressor = zlib.compressobj(zlib.Z_DEFAULT_COMPRESSION, zlib.DEFLATED, wbits)
        return compressor.compress(rewritten) + compressor.flush()

    def _pieces(self, text: str) -> Iterator[str]:
        """Yield a page in pieces, with all start tags rewritten."""
        position = 0
        for tag in start_tags(text):
            names = _ATTRIBUTES.get(tag.name, ())
            yield text[position : tag.start]
            yield tag.written(
                [
                    (name, self._rewritten_if_valid(value) if name in names else value)
                    for name, value in tag.attributes
                ]
            )
            position = tag.end
        yield text[position:]

    def _rewritten_if_valid(self, url: str) -> str:
        try:
            return self.rewrite(url)
        except ValueError:
            return url


def _split(url: str) -> SplitResult:
    """Return the parts of a URL. Raises ValueError for what Go's url.Parse refuses."""
    if _BAD_ESCAPE.search(url.partition("?")[0]):
        raise ValueError("invalid URL escape")
    if any(letter < " " or letter == "\x7f" for letter in url):
        raise ValueError("net/url: invalid control character in URL")
    parts = urlsplit(url)
    _ = parts.port  # raises ValueError
    if not parts.scheme and ":" in parts.path.partition("/")[0]:
        raise ValueError("first path segment in URL cannot contain colon")
    return parts
