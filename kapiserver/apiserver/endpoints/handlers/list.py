"""GET of a collection. Mirrors the list half of ListResource of k8s.io/apiserver."""

from __future__ import annotations

from kapiserver.apiserver.context import Server
from kapiserver.apiserver.endpoints.negotiation import negotiate_list
from kapiserver.apiserver.endpoints.object_responses import list_response, prepare_listing
from kapiserver.apiserver.endpoints.options import list_query, read_options, selector_cost
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse
from kapiserver.apiserver.target import Target
from kapiserver.storage.errors import CorruptObject


async def list_(server: Server, request: Request, target: Target) -> AnyResponse:
    """Return the list, or a page of it."""
    response_format = negotiate_list(server, request, target)
    options = read_options(server, request, "ListOptions")
    offloader = server.offloader
    query = await offloader.run(selector_cost(options), list_query, request.info, target, options)
    with request.trace.detail("cacher.GetList"):
        listing = await target.store.list(query)
    with request.trace.detail("SerializeObject"):
        try:
            await prepare_listing(offloader, response_format, target, listing)
            return await list_response(server, request, response_format, target, listing)
        except CorruptObject as error:
            raise await target.store.corrupt_list(query, error) from error
