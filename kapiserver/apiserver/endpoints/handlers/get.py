"""GET of one object, or of a subresource of it. Mirrors GetResource of k8s.io/apiserver."""

from __future__ import annotations

from kapiserver.apiserver.context import Server
from kapiserver.apiserver.endpoints.negotiation import negotiate_response
from kapiserver.apiserver.endpoints.object_responses import entry_response
from kapiserver.apiserver.endpoints.options import read_options
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse
from kapiserver.apiserver.target import Target


async def get(server: Server, request: Request, target: Target) -> AnyResponse:
    """Return the object."""
    response_format = negotiate_response(server, request, target)
    version = request.parameter("resourceVersion")
    if version:
        read_options(server, request, "GetOptions")
    with request.trace.detail("cacher.Get"):
        entry = await target.store.get(target.key, resource_version=version)
    return await entry_response(server, request, response_format, target, entry)
