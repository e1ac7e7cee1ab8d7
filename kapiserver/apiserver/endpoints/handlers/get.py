"""GET of one object, or of a subresource of it. Mirrors GetResource of k8s.io/apiserver."""

from __future__ import annotations

from kapiserver.apiserver.context import Server
from kapiserver.apiserver.endpoints.negotiation import negotiate_response
from kapiserver.apiserver.endpoints.object_responses import entry_response
from kapiserver.apiserver.endpoints.options import read_options
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse
from kapiserver.apiserver.target import Target
from kapiserver.codecs.media_types import YAML


async def get(server: Server, request: Request, target: Target) -> AnyResponse:
    """Return the object."""
    response_format = negotiate_response(server, request, target)
    version = request.parameter("resourceVersion")
    if version:
        read_options(server, request, "GetOptions")
    entry = await target.store.get(target.key, resource_version=version)
    if response_format.media is not YAML:
        return entry_response(server, request, response_format, target, entry)
    # Encoding YAML takes half a microsecond per byte, so large objects are encoded in a thread.
    offloader = server.stores.offloader
    await offloader.tree(entry)
    return await offloader.run_sized(
        len(entry.value), entry_response, server, request, response_format, target, entry
    )
