"""POST to a collection. Mirrors createHandler of k8s.io/apiserver."""

from __future__ import annotations

from kapiserver.apiserver.context import Server
from kapiserver.apiserver.endpoints.decode import read_body
from kapiserver.apiserver.endpoints.negotiation import negotiate_response
from kapiserver.apiserver.endpoints.object_responses import entry_response
from kapiserver.apiserver.endpoints.operations.create import create_object
from kapiserver.apiserver.endpoints.options import read_options
from kapiserver.apiserver.errors import MethodNotAllowed
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse
from kapiserver.apiserver.target import Target


async def create(server: Server, request: Request, target: Target) -> AnyResponse:
    """Create the object in the body and return it as stored."""
    if target.key.name:
        raise MethodNotAllowed
    response_format = negotiate_response(server, request, target)
    body = await read_body(server, request, target)
    options = read_options(server, request, "CreateOptions")
    result = await create_object(server, target, request.caller(), options, body)
    return await entry_response(server, request, response_format, target, result.entry, 201)
