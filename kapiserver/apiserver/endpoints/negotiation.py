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
from kapiserver.apiserver.endpoints.go_restful import check_accept, produced_types
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.target import Target
from kapiserver.codecs.media_types import JSON, PROTOBUF, MediaType
from kapiserver.codecs.negotiation import (
    AllowsConversion,
    check_stream,
    negotiate_output,
    no_conversion,
    wants_pretty,
)

META_VERSIONS = (GroupVersion("meta.k8s.io", "v1"), GroupVersion("meta.k8s.io", "v1beta1"))
_MAX_CACHED_TEXTS = 1024
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


class Endpoint(Struct, frozen=True, kw_only=True, eq=False):
    """What the responses of an endpoint may be.

    allows          whether a media type is offered with a conversion
    by_go_restful   whether kube-apiserver reaches the endpoint by a route of go-restful, which
                    reads the Accept header first
    has_streams     whether that route names the stream types, too
    other_types     media types that the route names first
    """

    allows: AllowsConversion
    by_go_restful: bool = True
    has_streams: bool = False
    other_types: tuple[str, ...] = ()


def negotiate_response(server: Server, request: Request, target: Target) -> ResponseFormat:
    """Return the format of a response with one object. Raises NotAcceptable, RouteNotAcceptable."""
    return negotiate(server, request, _custom_endpoint(target) or _OBJECTS)


def negotiate_list(server: Server, request: Request, target: Target) -> ResponseFormat:
    """Return the format of a list, or of the events of a watch. Raises NotAcceptable,
    RouteNotAcceptable."""
    return negotiate(server, request, _custom_endpoint(target) or _LISTS)


def stream_format(server: Server, response_format: ResponseFormat) -> ResponseFormat:
    """Return the format of the events of a watch. Raises NotAcceptable for a media type without a
    stream form."""
    check_stream(response_format.media, server.codecs.media_types)
    return ResponseFormat(media=response_format.media, convert=response_format.convert)


def negotiate(server: Server, request: Request, endpoint: Endpoint) -> ResponseFormat:
    """Return the format of a response of an endpoint. Raises NotAcceptable, RouteNotAcceptable."""
    accept, user_agent = request.header("Accept"), request.header("User-Agent")
    pretty = request.parameter("pretty")
    # Clients send few different headers, so results are cached.
    is_cacheable = len(accept) + len(user_agent) + len(pretty) <= _MAX_CACHED_TEXTS
    return (_cached_format if is_cacheable else _format)(
        accept, user_agent, pretty, server.codecs.media_types, endpoint
    )


def _custom_endpoint(target: Target) -> Endpoint | None:
    """Return the endpoint of a custom kind, or None; kube-apiserver routes custom kinds itself."""
    if target.kind_info.has_protobuf:
        return None
    return _CUSTOM_SCALES if target.has_other_kind else _CUSTOM_OBJECTS


def _format(
    accept: str, user_agent: str, pretty: str, offered: tuple[MediaType, ...], endpoint: Endpoint
) -> ResponseFormat:
    if endpoint.by_go_restful:
        produced = produced_types(offered, has_streams=endpoint.has_streams)
        check_accept(accept, endpoint.other_types + produced)
    options = negotiate_output(accept, offered, allows=endpoint.allows)
    is_indented = options.media.pretty and (options.pretty or wants_pretty(pretty, user_agent))
    return ResponseFormat(media=options.media, pretty=is_indented, convert=options.convert)


_cached_format = functools.lru_cache(maxsize=1024)(_format)


def _allows_without_protobuf(media: MediaType, convert: GroupVersionKind | None) -> bool:
    """Most custom objects have no Protobuf encoding; their PartialObjectMetadata has one."""
    return _allows(media, convert) and not (convert is None and media is PROTOBUF)


def _allows(media: MediaType, convert: GroupVersionKind | None) -> bool:
    if convert is None:
        return True
    if convert.group_version not in META_VERSIONS:
        return False
    return convert.kind in _METADATA or (convert.kind == "Table" and media is not PROTOBUF)


_OBJECTS = Endpoint(allows=_allows)
_LISTS = Endpoint(allows=_allows, has_streams=True)
_CUSTOM_OBJECTS = Endpoint(allows=_allows_without_protobuf, by_go_restful=False)
_CUSTOM_SCALES = Endpoint(allows=_allows, by_go_restful=False)
COMPUTED = Endpoint(allows=_allows, has_streams=True)
"""Objects and lists of computed groups."""
LOGS = Endpoint(allows=_allows, other_types=("text/plain",))
UNCONVERTED = Endpoint(allows=no_conversion)
"""Reviews, Statuses, and most documents of discovery."""
UNROUTED = Endpoint(allows=no_conversion, by_go_restful=False)
"""Documents of /apis, which kube-aggregator serves, and of versions of custom kinds."""
