"""DELETE of a collection. Mirrors DeleteCollection of k8s.io/apiserver."""

from __future__ import annotations

from kapiserver.apiserver.context import Server
from kapiserver.apiserver.endpoints.handlers.delete import read_delete_options
from kapiserver.apiserver.endpoints.negotiation import negotiate_response
from kapiserver.apiserver.endpoints.object_responses import list_response
from kapiserver.apiserver.endpoints.operations.delete import delete_objects
from kapiserver.apiserver.endpoints.options import list_query, read_options, selector_cost
from kapiserver.apiserver.errors import MethodNotAllowed
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse
from kapiserver.apiserver.target import Target


async def deletecollection(server: Server, request: Request, target: Target) -> AnyResponse:
    """Delete the selected objects and return the list of them."""
    if target.resource.namespaced and not target.key.namespace:
        raise MethodNotAllowed
    response_format = negotiate_response(server, request, target)
    options = read_options(server, request, "ListOptions")
    delete_options = await read_delete_options(server, request, target)
    run = server.offloader.run
    query = await run(selector_cost(options), list_query, request.info, target, options)
    listing = await delete_objects(server, target, request.caller(), delete_options, query)
    return await list_response(server, request, response_format, target, listing)
