"""componentstatuses: the health of the store.

The resource is deprecated, but `kubectl get componentstatuses` still reads it. Mirrors
pkg/registry/core/componentstatus of Kubernetes.
"""

from __future__ import annotations

from kapiserver.api.types import Tree
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.endpoints.computed import computed_response
from kapiserver.apiserver.endpoints.negotiation import negotiate_response
from kapiserver.apiserver.endpoints.options import read_options, selection_of
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse
from kapiserver.apiserver.target import Target
from kapiserver.storage.errors import NotFound

STORE = "etcd-0"
"""The name of the store's ComponentStatus, for every storage backend."""


async def get_or_list(server: Server, request: Request, target: Target) -> AnyResponse:
    """Return one ComponentStatus, or the list of all. Raises NotFound."""
    response_format = negotiate_response(server, request, target)
    read = _get if request.info.is_item else _list
    tree = await read(server, request, target)
    return computed_response(server, request, response_format, tree)


async def _get(server: Server, _request: Request, target: Target) -> Tree:
    if target.key.name != STORE:
        raise NotFound(resource="componentstatus", group="", name=target.key.name)
    return await _store_status(server)


async def _list(server: Server, request: Request, target: Target) -> Tree:
    options = read_options(server, request, "ListOptions")
    selection = selection_of(request.info, options, target.resource)
    statuses = [await _store_status(server)]
    items = [item for item in statuses if selection.matches({}, {"metadata.name": STORE})]
    return {"kind": "ComponentStatusList", "apiVersion": "v1", "metadata": {}, "items": items}


async def _store_status(server: Server) -> Tree:
    try:
        await server.health.alive["etcd"]()
        condition = {"type": "Healthy", "status": "True", "message": "ok"}
    except Exception as error:  # the status reports any error of the check
        condition = {"type": "Healthy", "status": "Unknown", "error": str(error)}
    return {
        "kind": "ComponentStatus",
        "apiVersion": "v1",
        "metadata": {"name": STORE},
        "conditions": [condition],
    }
