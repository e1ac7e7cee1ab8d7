"""Which encoding a client sends and which it wants: pure functions of header values.

Knows no request and no response. Mirrors k8s.io/apiserver/pkg/endpoints/handlers/negotiation and
RFC 9110 section 12: the most preferred clause wins, a clause whose parameters are not possible
here is passed over, q=0 refuses.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kapiserver.api.group import GroupVersionKind
from kapiserver.codecs.errors import NotAcceptable, UnsupportedMediaType
from kapiserver.codecs.media_types import MEDIA_TYPES, MediaType

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*+)"')
_SPACE = re.compile(r"[ \t]*+")
_HUMANS = ("curl", "Wget", "Mozilla/5.0")
_REMEMBERED_LENGTH = 256
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_MAX_CLAUSES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """What the answer shall be.

    media       the media type
    stream      `stream=`: "watch" or ""
    convert     `as=`, `g=`, `v=`: the kind to turn the answer into, such as a Table
    pretty      `pretty=1` beside the media type; see `wants_pretty` for the query
    parameters  all parameters of the clause that won, as sent, names in lower case
    """

    media: MediaType
    stream: str = ""
    convert: GroupVersionKind | None = None
    pretty: bool = False
    parameters: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """One element of a header such as Accept."""

    type: str
    subtype: str
    parameters: tuple[tuple[str, str], ...] = ()
    quality: float = 1.0

    @property
    def name(self) -> str:
        """`type/subtype`, in lower case."""
        return f"{self.type}/{self.subtype}"


Allows = Callable[[MediaType, GroupVersionKind | None], bool]
"""Whether an endpoint can answer in a media type with that conversion (None: as it is)."""


def no_conversion(_media: MediaType, convert: GroupVersionKind | None) -> bool:
    """The endpoint gives objects as they are and nothing else."""
    return convert is None


def negotiate(
    accept: str, offered: Sequence[MediaType] = MEDIA_TYPES, *, allows: Allows = no_conversion
) -> Accepted:
    """The answer's encoding for an Accept header; "" when it is missing.

    Raises NotAcceptable naming the media types on offer.
    """
    if not accept.strip():
        return Accepted(media=offered[0])
    found = _first_match(accept, offered, allows)
    if found is None:
        raise NotAcceptable([media.name for media in offered])
    return found


def negotiate_stream(
    accept: str, offered: Sequence[MediaType] = MEDIA_TYPES, *, allows: Allows = no_conversion
) -> Accepted:
    """The encoding of a watch. Raises NotAcceptable naming the streams on offer.

    Like kube-apiserver, a client that prefers an encoding without streams is refused rather than
    given its second choice.
    """
    streams = [media for media in offered if media.framing is not None]
    found = _first_match(accept, offered, allows) if accept.strip() else Accepted(media=streams[0])
    if found is None or found.media.framing is None:
        raise NotAcceptable([media.stream_name for media in streams])
    return found


def content_type(header: str, offered: Sequence[MediaType] = MEDIA_TYPES) -> MediaType:
    """The media type of a body by its Content-Type; the first on offer when that is missing.

    Raises UnsupportedMediaType.
    """
    if not header.strip():
        return offered[0]
    # Clients send the same few headers over and over.
    known = len(header) <= _REMEMBERED_LENGTH
    name = (_media_type_name if known else media_type_name)(header)
    for media in offered:
        if media.name == name:
            return media
    raise UnsupportedMediaType([media.name for media in offered])


def media_type_name(header: str) -> str:
    """`type/subtype` of a Content-Type in lower case, without parameters; "" when malformed."""
    try:
        clause = _read_clause(_Cursor(header))
    except ValueError:
        return ""
    return clause.name


_media_type_name = functools.lru_cache(maxsize=64)(media_type_name)


def wants_pretty(query_value: str, user_agent: str) -> bool:
    """Whether to indent, by `?pretty=` ("" when missing) or else by who seems to read it."""
    if query_value:
        return query_value in _TRUE
    return user_agent.startswith(_HUMANS)


def parse_accept(header: str) -> list[Clause]:
    """The clauses of an Accept header, most preferred first; what makes no sense is dropped."""
    clauses = []
    for text in _split(header)[:_MAX_CLAUSES]:
        try:
            clauses.append(_read_clause(_Cursor(text)))
        except ValueError:
            continue
    return sorted(clauses, key=lambda one: (-one.quality, one.type == "*", one.subtype == "*"))


def _first_match(accept: str, offered: Sequence[MediaType], allows: Allows) -> Accepted | None:
    clauses = parse_accept(accept)
    refused = {one.name for one in clauses if one.quality <= 0}
    for clause in clauses:
        if clause.quality <= 0:
            break
        for media in offered:
            if media.name in refused or not _matches(clause, media):
                continue
            accepted = _with_parameters(clause, media)
            if accepted is not None and allows(media, accepted.convert):
                return accepted
    return None


def _matches(clause: Clause, media: MediaType) -> bool:
    if clause.type == "*":
        return clause.subtype == "*"
    kind, _, _ = media.name.partition("/")
    if clause.subtype == "*":
        return clause.type == kind
    return clause.name in (media.name, media.stream_name)


def _with_parameters(clause: Clause, media: MediaType) -> Accepted | None:
    given = dict(clause.parameters)
    stream = given.get("stream", "")
    if stream and (stream != "watch" or media.framing is None):
        return None
    if given.get("sv"):
        return None
    convert = None
    if any(given.get(name) for name in ("as", "g", "v")):
        convert = GroupVersionKind(given.get("g", ""), given.get("v", ""), given.get("as", ""))
    return Accepted(
        media=media,
        stream=stream,
        convert=convert,
        pretty=given.get("pretty") == "1",
        parameters=clause.parameters,
    )


@dataclass(slots=True)
class _Cursor:
    text: str
    at: int = field(default=0)

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self.text, self.at)
        if found:
            self.at = found.end()
        return found

    def token(self) -> str:
        found = self.take(_TOKEN)
        if not found:
            raise ValueError(f"no token at {self.at}")
        return found.group().lower()

    def takes(self, mark: str) -> bool:
        self.take(_SPACE)
        if not self.text.startswith(mark, self.at):
            return False
        self.at += len(mark)
        self.take(_SPACE)
        return True

    @property
    def done(self) -> bool:
        return self.at >= len(self.text)


def _read_clause(cursor: _Cursor) -> Clause:
    cursor.take(_SPACE)
    kind = cursor.token()
    # A lone "*" is how java.net.URL spells "*/*".
    subtype = cursor.token() if cursor.takes("/") else kind
    if subtype == kind and kind != "*" and "/" not in cursor.text:
        raise ValueError("no subtype")
    parameters: dict[str, str] = {}
    while cursor.takes(";"):
        if cursor.done:
            break
        name = cursor.token()
        if not cursor.takes("="):
            raise ValueError("a parameter without a value")
        parameters.setdefault(name, _parameter_value(cursor))
    cursor.take(_SPACE)
    if not cursor.done:
        raise ValueError("more than a clause")
    return Clause(
        type=kind,
        subtype=subtype,
        quality=_quality(parameters.pop("q", "1")),
        parameters=tuple(parameters.items()),
    )


def _parameter_value(cursor: _Cursor) -> str:
    if quoted := cursor.take(_QUOTED):
        return re.sub(r"\\(.)", r"\1", quoted.group(1))
    found = cursor.take(_TOKEN)
    if not found:
        raise ValueError("a parameter without a value")
    return found.group()


def _quality(text: str) -> float:
    try:
        quality = float(text)
    except ValueError:
        return 1.0
    return min(quality, 1.0) if quality == quality else 1.0


def _split(header: str) -> list[str]:
    # Commas inside quoted parameters do not end a clause.
    if '"' not in header:
        return header.split(",")
    return re.findall(r'(?:[^",]|"(?:[^"\\]|\\.)*+"?)+', header)
