"""Negotiate the format of a response: encoding, indentation, and conversion of the objects to a
Table or to PartialObjectMetadata.

Handlers negotiate before they do any work. Mirrors endpoints/handlers/negotiation and
AllowsMediaTypeTransform of k8s.io/apiserver.
"""

from __future__ import annotations

import functools

from msgspec import Struct

from kapiserver.api.group import GroupVersion, GroupVersionKind
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.target import Target
from kapiserver.codecs.media_types import JSON, PROTOBUF, MediaType
from kapiserver.codecs.negotiation import (
    AllowsConversion,
    MediaTypeOptions,
    negotiate_output,
    negotiate_output_stream,
    wants_pretty,
)

META_VERSIONS = (GroupVersion("meta.k8s.io", "v1"), GroupVersion("meta.k8s.io", "v1beta1"))
_MAX_CACHED_HEADER = 512
_METADATA = ("PartialObjectMetadata", "PartialObjectMetadataList")


class ResponseFormat(Struct, frozen=True, kw_only=True):
    """The format of a response. `convert` is a kind of META_VERSIONS to convert objects to, such as
    Table; None if they are sent as they are."""

    media: MediaType
    pretty: bool = False
    convert: GroupVersionKind | None = None

    @property
    def is_table(self) -> bool:
        """Whether the response is a Table."""
        return self.convert is not None and self.convert.kind == "Table"

    @property
    def is_compact_json(self) -> bool:
        """Whether the response is JSON without indentation."""
        return self.media is JSON and not self.pretty


def negotiate_response(server: Server, request: Request, target: Target) -> ResponseFormat:
    """Return the format of a response with one object or a list. Raises NotAcceptable."""
    return _negotiate(server, request, _allows if target.has_protobuf else _allows_without_protobuf)


def negotiate_typed(server: Server, request: Request) -> ResponseFormat:
    """Return the format of a response with objects of declared kinds. Raises NotAcceptable."""
    return _negotiate(server, request, _allows)


def _negotiate(server: Server, request: Request, allows: AllowsConversion) -> ResponseFormat:
    header, offered = request.header("Accept"), server.codecs.media_types
    # Clients send few different headers, so results are cached.
    is_cacheable = len(header) <= _MAX_CACHED_HEADER
    options = (_negotiate_cached if is_cacheable else _negotiate_cached.__wrapped__)(
        header, offered, allows
    )
    return _response_format(request, options)


def negotiate_stream(server: Server, request: Request, target: Target) -> ResponseFormat:
    """Return the format of the events of a watch. Raises NotAcceptable."""
    header = request.header("Accept")
    allows = _allows if target.has_protobuf else _allows_without_protobuf
    options = negotiate_output_stream(header, server.codecs.media_types, allows=allows)
    return ResponseFormat(media=options.media, convert=options.convert)


@functools.lru_cache(maxsize=256)
def _negotiate_cached(
    header: str, offered: tuple[MediaType, ...], allows: AllowsConversion
) -> MediaTypeOptions:
    return negotiate_output(header, offered, allows=allows)


def _response_format(request: Request, options: MediaTypeOptions) -> ResponseFormat:
    is_interactive = wants_pretty(request.parameter("pretty"), request.header("User-Agent"))
    pretty = options.media.pretty and (options.pretty or is_interactive)
    return ResponseFormat(media=options.media, pretty=pretty, convert=options.convert)


def _allows_without_protobuf(media: MediaType, convert: GroupVersionKind | None) -> bool:
    """Most custom objects have no Protobuf encoding; their PartialObjectMetadata has one."""
    return _allows(media, convert) and not (convert is None and media is PROTOBUF)


def _allows(media: MediaType, convert: GroupVersionKind | None) -> bool:
    if convert is None:
        return True
    if convert.group_version not in META_VERSIONS:
        return False
    return convert.kind in _METADATA or (convert.kind == "Table" and media is not PROTOBUF)
