"""Content negotiation: pure functions of the Accept and Content-Type headers.

Knows no request and no response. Mirrors k8s.io/apiserver/pkg/endpoints/handlers/negotiation, which
reads an Accept header with goautoneg: the most preferred media range wins, and media ranges with
unsupported parameters are skipped. Unlike in RFC 9110, q=0 does not exclude a media type, types are
case-sensitive, and a comma separates media ranges even within quotes.
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
_QUALITY = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_MAX_MEDIA_RANGES = 100
_MAX_PARAMETERS = 100


class MediaTypeOptions(Struct, frozen=True, kw_only=True):
    """The negotiated encoding of a response.

    media       the media type
    stream      `stream=`: "watch" or ""
    convert     `as=`, `g=`, `v=`: the kind to convert the response to, such as Table
    pretty      `pretty=1` in the Accept header; see `wants_pretty` for the query parameter
    parameters  all parameters of the chosen media range as sent
    """

    media: MediaType
    stream: str = ""
    convert: GroupVersionKind | None = None
    pretty: bool = False
    parameters: tuple[tuple[str, str], ...] = ()


class MediaRange(Struct, frozen=True, kw_only=True):
    """One element of an Accept header, as sent."""

    type: str
    subtype: str
    parameters: tuple[tuple[str, str], ...] = ()
    quality: float = 1.0

    @property
    def name(self) -> str:
        """`type/subtype`."""
        return f"{self.type}/{self.subtype}"

    def precedes(self, other: MediaRange) -> bool:
        """Whether goautoneg prefers this media range. That is not an order: each of two ranges can
        precede the other."""
        return (
            self.quality > other.quality
            or (self.type != "*" and other.type == "*")
            or (self.subtype != "*" and other.subtype == "*")
        )


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


def check_stream(media: MediaType, offered: Sequence[MediaType] = MEDIA_TYPES) -> None:
    """Check that the media type chosen for a watch has a stream form.

    As in kube-apiserver, a client that prefers one without a stream form is refused and does not
    get its second choice. Raises NotAcceptable, which lists the offered stream types.
    """
    if media.framing is None:
        raise NotAcceptable([media.stream_name for media in offered if media.framing is not None])


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
        return _parse_content_type(_Cursor(header))
    except ValueError:
        return ""


_cached_media_type_name = functools.lru_cache(maxsize=64)(media_type_name)


def wants_pretty(query_value: str, user_agent: str) -> bool:
    """Whether to indent: by the value of `?pretty=`, or by the user agent if that is ""."""
    if query_value:
        return query_value in _TRUE
    return user_agent.startswith(_HUMAN_USER_AGENTS)


def parse_accept(header: str) -> list[MediaRange]:
    """Return the media ranges of an Accept header, most preferred first; malformed ones are left
    out."""
    media_ranges: list[MediaRange] = []
    for text in header.split(",", _MAX_MEDIA_RANGES)[:_MAX_MEDIA_RANGES]:
        media_range = _parse_media_range(text)
        if media_range is None:
            continue
        # Go sorts up to twelve elements like this; the result depends on it, as there is no order.
        position = len(media_ranges)
        while position and media_range.precedes(media_ranges[position - 1]):
            position -= 1
        media_ranges.insert(position, media_range)
    return media_ranges


def _parse_media_range(text: str) -> MediaRange | None:
    name, *parameter_texts = text.split(";", _MAX_PARAMETERS + 1)
    type_, _, subtypes = name.partition("/")
    subtype, _, more = subtypes.partition("/")
    type_ = type_.strip(" ")
    if not subtypes and type_ == "*":
        subtype = "*"  # java.net.URL writes "*" for "*/*"
    if not subtype or more or len(parameter_texts) > _MAX_PARAMETERS:
        return None
    quality = 1.0
    parameters: dict[str, str] = {}
    for parameter_text in parameter_texts:
        key, _, values = parameter_text.partition("=")
        value, _, more = values.partition("=")
        if not value or more:
            continue
        if key.strip(" ") == "q":
            quality = float(value) if _QUALITY.fullmatch(value) else 0.0
        else:
            parameters[key.strip(" ")] = value.strip(" ")
    return MediaRange(
        type=type_,
        subtype=subtype.strip(" "),
        parameters=tuple(parameters.items()),
        quality=quality,
    )


def _first_match(
    accept: str, offered: Sequence[MediaType], allows: AllowsConversion
) -> MediaTypeOptions | None:
    for media_range in parse_accept(accept):
        for media in offered:
            if not _matches(media_range, media):
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
    if not parameters.keys().isdisjoint(("as", "g", "v")):
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

    def skip_value(self) -> None:
        if not (self.match(_QUOTED) or self.match(_TOKEN)):
            raise ValueError("a parameter without a value")

    @property
    def at_end(self) -> bool:
        return self.position >= len(self.text)


def _parse_content_type(cursor: _Cursor) -> str:
    """Return `type/subtype` in lower case, "" if there is no subtype. Raises ValueError."""
    cursor.match(_SPACE)
    type_ = cursor.token()
    name = f"{type_}/{cursor.token()}" if cursor.skip("/") else ""
    for _ in range(_MAX_PARAMETERS):
        if not cursor.skip(";") or cursor.at_end:
            break
        cursor.token()
        if not cursor.skip("="):
            raise ValueError("a parameter without a value")
        cursor.skip_value()
    cursor.match(_SPACE)
    if not cursor.at_end:
        raise ValueError("more than a media type")
    return name
