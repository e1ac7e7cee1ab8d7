"""DELETE of one object. Mirrors DeleteResource of k8s.io/apiserver."""

from __future__ import annotations

from kapiserver.api.types import Tree
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.endpoints.decode import EncodedBody, count_body
from kapiserver.apiserver.endpoints.negotiation import ResponseFormat, negotiate_response
from kapiserver.apiserver.endpoints.object_responses import entry_response
from kapiserver.apiserver.endpoints.operations.delete import (
    delete_object,
    delete_options,
    deleted_status,
)
from kapiserver.apiserver.endpoints.operations.unsafe_delete import (
    delete_unreadable,
    is_unsafe,
)
from kapiserver.apiserver.endpoints.options import read_options
from kapiserver.apiserver.endpoints.responses import plain_response
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse
from kapiserver.apiserver.target import Target
from kapiserver.codecs.negotiation import negotiate_input


async def delete(server: Server, request: Request, target: Target) -> AnyResponse:
    """Delete the object, or mark it as terminating."""
    response_format = negotiate_response(server, request, target)
    options = await read_delete_options(server, request, target)
    if is_unsafe(options):
        status = await delete_unreadable(server, target, request.caller(), options)
        return plain_response(server, response_format, status)
    result = await delete_object(server, target, request.caller(), options)
    deleted = await deleted_status(server, target, result)
    if deleted is not None:
        # A Status is never converted to a Table.
        return plain_response(
            server,
            ResponseFormat(media=response_format.media, pretty=response_format.pretty),
            deleted,
        )
    is_waiting = result.outcome == "terminating" and options.get("orphanDependents") is False
    return await entry_response(
        server, request, response_format, target, result.entry, 202 if is_waiting else 200
    )


async def read_delete_options(server: Server, request: Request, target: Target) -> Tree:
    """Return the DeleteOptions in the body, or in the query if there is no body. Raises BadRequest,
    InvalidObject."""
    data = await request.read_body(server.config.limits.body_limit)
    count_body(server, request, data)
    if not data:
        return read_options(server, request, "DeleteOptions")
    # kube-apiserver reads options with the codecs of its own kinds, those of custom kinds, too.
    media = negotiate_input(request.header("Content-Type"), server.codecs.media_types)
    body = EncodedBody(data=data, media=media)
    return await server.offloader.run(body.cost, delete_options, server, target, body)
