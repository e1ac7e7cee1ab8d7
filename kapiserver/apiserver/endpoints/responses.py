"""Responses with trees such as Status and discovery documents, in the negotiated encoding.

`object_responses.py` makes the responses with stored objects.
"""

from __future__ import annotations

from collections.abc import Sequence

from kapiserver.api.types import Tree
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import Response
from kapiserver.codecs.errors import CodecError, NotAcceptable
from kapiserver.codecs.media_types import JSON, MediaType
from kapiserver.codecs.negotiation import MediaTypeOptions, negotiate_output, wants_pretty


def tree_response(
    server: Server,
    request: Request,
    tree: Tree,
    *,
    status: int = 200,
    offered: Sequence[MediaType] = (),
) -> Response:
    """Return a tree of a declared kind as a response. `offered` are the media types to choose from;
    the default is all of the server's. Raises NotAcceptable."""
    media_types = offered or server.codecs.media_types
    options = negotiate_output(request.header("Accept"), media_types, allows=_allow_any)
    return _encode(server, request, tree, options, status)


def status_response(server: Server, request: Request, tree: Tree) -> Response:
    """Return a Status as a response. If the client accepts no encoding without a conversion, it is
    indented JSON, as with kube-apiserver."""
    try:
        options = negotiate_output(request.header("Accept"), server.codecs.media_types)
    except NotAcceptable:
        options = MediaTypeOptions(media=JSON, pretty=True)
    try:
        response = _encode(server, request, tree, options, tree["code"])
    except CodecError:
        response = _encode(server, request, tree, MediaTypeOptions(media=JSON), tree["code"])
    retry_after = tree.get("details", {}).get("retryAfterSeconds")
    if retry_after:
        response.headers.append(("Retry-After", str(retry_after)))
    return response


def is_pretty(request: Request, options: MediaTypeOptions) -> bool:
    """Return whether to indent the response: if the client asks for it, or is a browser or curl."""
    return options.pretty or wants_pretty(request.parameter("pretty"), request.header("User-Agent"))


def _allow_any(_media: MediaType, _convert: object) -> bool:
    return True  # a Status is never converted to a Table


def _encode(
    server: Server, request: Request, tree: Tree, options: MediaTypeOptions, status: int
) -> Response:
    media = options.media
    pretty = media.pretty and is_pretty(request, options)
    make = server.codecs.pretty_serializer_for if pretty else server.codecs.serializer_for
    return Response(status=status, media_type=media.name, body=make(media).encode(tree))
