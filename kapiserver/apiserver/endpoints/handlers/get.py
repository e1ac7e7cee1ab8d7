"""GET of one object, or of a subresource of it. Mirrors GetResource of k8s.io/apiserver."""

from __future__ import annotations

from kapiserver.apiserver.context import Server
from kapiserver.apiserver.endpoints.negotiation import wanted
from kapiserver.apiserver.endpoints.object_responses import entry_response
from kapiserver.apiserver.endpoints.options import read_options
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse
from kapiserver.apiserver.target import Target
from kapiserver.codecs.media_types import YAML


async def get(server: Server, request: Request, target: Target) -> AnyResponse:
    """Answer with the object."""
    form = wanted(server, request, target)
    version = request.parameter("resourceVersion")
    if version:
        read_options(server, request, "GetOptions")
    entry = await target.store.get(target.key, resource_version=version)
    if form.media is not YAML:
        return entry_response(server, request, form, target, entry)
    # Writing YAML takes half a microsecond a byte.
    aside = server.stores.offloader
    await aside.tree(entry)
    return await aside.run_sized(
        len(entry.value), entry_response, server, request, form, target, entry
    )
