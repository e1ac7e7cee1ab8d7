"""Trees as answers, in the best encoding that the client takes: Status, discovery, ...

For objects out of the store, which are bytes already, see `handlers/`.
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
    """Answer with a tree of a declared kind, in what the server speaks where nothing else is
    offered. Raises NotAcceptable."""
    possible = offered or server.codecs.media_types
    accepted = negotiate_output(request.header("Accept"), possible, allows=_anything)
    return _encoded(server, request, tree, accepted, status)


def status_response(server: Server, request: Request, tree: Tree) -> Response:
    """Return a Status as a response; in JSON if the client accepts no available encoding."""
    try:
        offered = server.codecs.media_types
        accepted = negotiate_output(request.header("Accept"), offered, allows=_anything)
    except NotAcceptable:
        accepted = MediaTypeOptions(media=JSON)
    try:
        answer = _encoded(server, request, tree, accepted, tree["code"])
    except CodecError:
        answer = _encoded(server, request, tree, MediaTypeOptions(media=JSON), tree["code"])
    retry_after = tree.get("details", {}).get("retryAfterSeconds")
    if retry_after:
        answer.headers.append(("Retry-After", str(retry_after)))
    return answer


def is_pretty(request: Request, accepted: MediaTypeOptions) -> bool:
    """Whether the answer is indented: as asked for, else for browsers and command lines."""
    return accepted.pretty or wants_pretty(
        request.parameter("pretty"), request.header("User-Agent")
    )


def _anything(_media: MediaType, _convert: object) -> bool:
    return True  # a Table of a Status is a Status


def _encoded(
    server: Server, request: Request, tree: Tree, accepted: MediaTypeOptions, status: int
) -> Response:
    media = accepted.media
    pretty = media.pretty and is_pretty(request, accepted)
    make = server.codecs.pretty_serializer_for if pretty else server.codecs.serializer_for
    return Response(status=status, media_type=media.name, body=make(media).encode(tree))
