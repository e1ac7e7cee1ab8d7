"""Responses with trees such as Status and discovery documents, in the negotiated encoding.

`object_responses.py` makes the responses with stored objects.
"""

from __future__ import annotations

from kapiserver.api.types import Tree
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.endpoints.negotiation import UNROUTED, ResponseFormat, negotiate
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import Response
from kapiserver.codecs.errors import CodecError, NotAcceptable
from kapiserver.codecs.media_types import JSON


def plain_response(
    server: Server, response_format: ResponseFormat, tree: Tree, status: int = 200
) -> Response:
    """Return a response with a tree, without conversion."""
    codecs = server.codecs
    make = codecs.pretty_serializer_for if response_format.pretty else codecs.serializer_for
    body = make(response_format.media).encode(tree)
    return Response(status=status, media_type=response_format.media.name, body=body)


def status_response(server: Server, request: Request, tree: Tree) -> Response:
    """Return a Status as a response. If the client accepts no encoding without a conversion, it is
    indented JSON, as with kube-apiserver."""
    try:
        response_format = negotiate(server, request, UNROUTED)
    except NotAcceptable:
        response_format = ResponseFormat(media=JSON, pretty=True)
    try:
        response = plain_response(server, response_format, tree, tree["code"])
    except CodecError:
        response = plain_response(server, ResponseFormat(media=JSON), tree, tree["code"])
    retry_after = tree.get("details", {}).get("retryAfterSeconds")
    if retry_after:
        response.headers.append(("Retry-After", str(retry_after)))
    return response
