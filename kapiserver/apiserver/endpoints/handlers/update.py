"""PUT of an object or a subresource. Mirrors UpdateResource of k8s.io/apiserver."""

from __future__ import annotations

from kapiserver.apiserver.context import Server
from kapiserver.apiserver.endpoints.decode import read_body
from kapiserver.apiserver.endpoints.negotiation import negotiate_response
from kapiserver.apiserver.endpoints.object_responses import entry_response
from kapiserver.apiserver.endpoints.operations.update import update_object
from kapiserver.apiserver.endpoints.options import read_options
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse
from kapiserver.apiserver.target import Target


async def update(server: Server, request: Request, target: Target) -> AnyResponse:
    """Replace the object with the one in the body and return it as stored."""
    response_format = negotiate_response(server, request, target)
    body = await read_body(server, request, target)
    options = read_options(server, request, "UpdateOptions")
    result = await update_object(server, target, request.caller(), options, body)
    status = 201 if result.outcome == "created" else 200
    return await entry_response(server, request, response_format, target, result.entry, status)
