"""Content negotiation: pure functions of the Accept and Content-Type headers.

Knows no request and no response. Mirrors k8s.io/apiserver/pkg/endpoints/handlers/negotiation and
RFC 9110 section 12: the most preferred media range wins, media ranges with unsupported parameters
are skipped, q=0 excludes a media type.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence

from msgspec import Struct, field

from kapiserver.api.group import GroupVersionKind
from kapiserver.codecs.errors import NotAcceptable, UnsupportedMediaType
from kapiserver.codecs.media_types import MEDIA_TYPES, MediaType

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*+)"')
_SPACE = re.compile(r"[ \t]*+")
_HUMAN_USER_AGENTS = ("curl", "Wget", "Mozilla/5.0")
_MAX_CACHED_LENGTH = 256
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_MAX_MEDIA_RANGES = 100
_MAX_PARAMETERS = 100


class MediaTypeOptions(Struct, frozen=True, kw_only=True):
    """The negotiated encoding of a response.

    media       the media type
    stream      `stream=`: "watch" or ""
    convert     `as=`, `g=`, `v=`: the kind to convert the response to, such as Table
    pretty      `pretty=1` in the Accept header; see `wants_pretty` for the query parameter
    parameters  all parameters of the chosen media range as sent, names in lower case
    """

    media: MediaType
    stream: str = ""
    convert: GroupVersionKind | None = None
    pretty: bool = False
    parameters: tuple[tuple[str, str], ...] = ()


class MediaRange(Struct, frozen=True, kw_only=True):
    """One element of an Accept header, or a Content-Type."""

    type: str
    subtype: str
    parameters: tuple[tuple[str, str], ...] = ()
    quality: float = 1.0

    @property
    def name(self) -> str:
        """`type/subtype`, in lower case."""
        return f"{self.type}/{self.subtype}"


AllowsConversion = Callable[[MediaType, GroupVersionKind | None], bool]
"""Whether an endpoint offers a media type with a conversion (None: without conversion)."""


def no_conversion(_media: MediaType, convert: GroupVersionKind | None) -> bool:
    """Allow no conversion."""
    return convert is None


def negotiate_output(
    accept: str,
    offered: Sequence[MediaType] = MEDIA_TYPES,
    *,
    allows: AllowsConversion = no_conversion,
) -> MediaTypeOptions:
    """Return the encoding of a response for an Accept header; "" if the header is missing.

    Raises NotAcceptable, which lists the offered media types.
    """
    if not accept.strip():
        return MediaTypeOptions(media=offered[0])
    options = _first_match(accept, offered, allows)
    if options is None:
        raise NotAcceptable([media.name for media in offered])
    return options


def negotiate_output_stream(
    accept: str,
    offered: Sequence[MediaType] = MEDIA_TYPES,
    *,
    allows: AllowsConversion = no_conversion,
) -> MediaTypeOptions:
    """Return the encoding of a watch.

    As in kube-apiserver, a client that prefers a media type without a stream form is refused and
    does not get its second choice. Raises NotAcceptable, which lists the offered stream types.
    """
    streams = [media for media in offered if media.framing is not None]
    options = (
        _first_match(accept, offered, allows)
        if accept.strip()
        else MediaTypeOptions(media=streams[0])
    )
    if options is None or options.media.framing is None:
        raise NotAcceptable([media.stream_name for media in streams])
    return options


def negotiate_input(header: str, offered: Sequence[MediaType] = MEDIA_TYPES) -> MediaType:
    """Return the media type of a body by its Content-Type; the first one offered if it is missing.

    Raises UnsupportedMediaType.
    """
    if not header.strip():
        return offered[0]
    # Clients send the same few headers repeatedly, so parsed ones are cached.
    cacheable = len(header) <= _MAX_CACHED_LENGTH
    name = (_cached_media_type_name if cacheable else media_type_name)(header)
    for media in offered:
        if media.name == name:
            return media
    raise UnsupportedMediaType([media.name for media in offered])


def media_type_name(header: str) -> str:
    """Return `type/subtype` of a Content-Type in lower case; "" if it is malformed."""
    try:
        media_range = _parse_media_range(_Cursor(header))
    except ValueError:
        return ""
    return media_range.name


_cached_media_type_name = functools.lru_cache(maxsize=64)(media_type_name)


def wants_pretty(query_value: str, user_agent: str) -> bool:
    """Whether to indent: by the value of `?pretty=`, or by the user agent if that is ""."""
    if query_value:
        return query_value in _TRUE
    return user_agent.startswith(_HUMAN_USER_AGENTS)


def parse_accept(header: str) -> list[MediaRange]:
    """Return the valid media ranges of an Accept header, most preferred first."""
    media_ranges = []
    for text in _split_elements(header)[:_MAX_MEDIA_RANGES]:
        try:
            media_ranges.append(_parse_media_range(_Cursor(text)))
        except ValueError:
            continue
    return sorted(
        media_ranges,
        key=lambda media_range: (
            -media_range.quality,
            media_range.type == "*",
            media_range.subtype == "*",
        ),
    )


def _first_match(
    accept: str, offered: Sequence[MediaType], allows: AllowsConversion
) -> MediaTypeOptions | None:
    media_ranges = parse_accept(accept)
    refused_types = {media_range.name for media_range in media_ranges if media_range.quality <= 0}
    for media_range in media_ranges:
        if media_range.quality <= 0:
            break
        for media in offered:
            if media.name in refused_types or not _matches(media_range, media):
                continue
            options = _media_type_options(media_range, media)
            if options is not None and allows(media, options.convert):
                return options
    return None


def _matches(media_range: MediaRange, media: MediaType) -> bool:
    if media_range.type == "*":
        return media_range.subtype == "*"
    type_, _, _ = media.name.partition("/")
    if media_range.subtype == "*":
        return media_range.type == type_
    return media_range.name in (media.name, media.stream_name)


def _media_type_options(media_range: MediaRange, media: MediaType) -> MediaTypeOptions | None:
    parameters = dict(media_range.parameters)
    stream = parameters.get("stream", "")
    if stream and (stream != "watch" or media.framing is None):
        return None
    if parameters.get("sv"):
        return None
    convert = None
    if any(parameters.get(name) for name in ("as", "g", "v")):
        convert = GroupVersionKind(
            parameters.get("g", ""), parameters.get("v", ""), parameters.get("as", "")
        )
    return MediaTypeOptions(
        media=media,
        stream=stream,
        convert=convert,
        pretty=parameters.get("pretty") == "1",
        parameters=media_range.parameters,
    )


class _Cursor(Struct):
    text: str
    position: int = field(default=0)

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self.text, self.position)
        if match:
            self.position = match.end()
        return match

    def token(self) -> str:
        match = self.match(_TOKEN)
        if not match:
            raise ValueError(f"no token at {self.position}")
        return match.group().lower()

    def skip(self, mark: str) -> bool:
        self.match(_SPACE)
        if not self.text.startswith(mark, self.position):
            return False
        self.position += len(mark)
        self.match(_SPACE)
        return True

    @property
    def at_end(self) -> bool:
        return self.position >= len(self.text)


def _parse_media_range(cursor: _Cursor) -> MediaRange:
    cursor.match(_SPACE)
    type_ = cursor.token()
    # java.net.URL writes "*" for "*/*".
    subtype = cursor.token() if cursor.skip("/") else type_
    if subtype == type_ and type_ != "*" and "/" not in cursor.text:
        raise ValueError("no subtype")
    parameters: dict[str, str] = {}
    for _ in range(_MAX_PARAMETERS):
        if not cursor.skip(";"):
            break
        if cursor.at_end:
            break
        name = cursor.token()
        if not cursor.skip("="):
            raise ValueError("a parameter without a value")
        parameters.setdefault(name, _parameter_value(cursor))
    cursor.match(_SPACE)
    if not cursor.at_end:
        raise ValueError("more than a clause")
    return MediaRange(
        type=type_,
        subtype=subtype,
        quality=_parse_quality(parameters.pop("q", "1")),
        parameters=tuple(parameters.items()),
    )


def _parameter_value(cursor: _Cursor) -> str:
    if quoted := cursor.match(_QUOTED):
        return re.sub(r"\\(.)", r"\1", quoted.group(1))
    token = cursor.match(_TOKEN)
    if not token:
        raise ValueError("a parameter without a value")
    return token.group()


def _parse_quality(text: str) -> float:
    try:
        quality = float(text)
    except ValueError:
        return 1.0
    return min(quality, 1.0) if quality == quality else 1.0


def _split_elements(header: str) -> list[str]:
    # Commas inside quoted parameters do not separate elements.
    if '"' not in header:
        return header.split(",")
    return re.findall(r'(?:[^",]|"(?:[^"\\]|\\.)*+"?)+', header)
