"""componentstatuses: the health of the store.

The resource is deprecated, but `kubectl get componentstatuses` still reads it. Mirrors
pkg/registry/core/componentstatus of Kubernetes.
"""

from __future__ import annotations

from kapiserver.api.types import Tree
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.endpoints.negotiation import ResponseFormat, negotiate_response
from kapiserver.apiserver.endpoints.object_responses import (
    current_time,
    plain_response,
    table_builder,
)
from kapiserver.apiserver.endpoints.options import read_options, selection_of
from kapiserver.apiserver.endpoints.tables import partial_metadata
from kapiserver.apiserver.errors import UnsupportedResponseKind
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse
from kapiserver.apiserver.target import Target
from kapiserver.storage.errors import NotFound

STORE = "etcd-0"
"""The name of the store's ComponentStatus, for every storage backend."""


async def get_or_list(server: Server, request: Request, target: Target) -> AnyResponse:
    """Return one ComponentStatus, or the list of all. Raises NotFound."""
    handler = _get if request.info.is_item else _list
    return await handler(server, request, target)


async def _get(server: Server, request: Request, target: Target) -> AnyResponse:
    response_format = negotiate_response(server, request, target)
    if target.key.name != STORE:
        raise NotFound(resource="componentstatuses", group="", name=target.key.name)
    return _object_response(server, request, response_format, target, await _store_status(server))


async def _list(server: Server, request: Request, target: Target) -> AnyResponse:
    response_format = negotiate_response(server, request, target)
    options = read_options(server, request, "ListOptions")
    selection = selection_of(request.info, options, target.resource)
    statuses = [await _store_status(server)]
    items = [item for item in statuses if selection.matches({}, {"metadata.name": STORE})]
    metadata: Tree = {}
    if response_format.is_table:
        table = table_builder(server, request, response_format, target)
        tree = table.head(metadata)
        tree["rows"] = [table.row(item, current_time(server)) for item in items]
    elif response_format.convert is not None:
        if not response_format.convert.kind.endswith("List"):
            raise UnsupportedResponseKind(
                "you requested PartialObjectMetadata, but the object is a list"
            )
        version = response_format.convert.group_version
        tree = {
            "kind": response_format.convert.kind,
            "apiVersion": str(version),
            "metadata": metadata,
        }
        tree["items"] = [partial_metadata(item, version) for item in items]
    else:
        bare = [
            {k: v for k, v in item.items() if k not in ("kind", "apiVersion")} for item in items
        ]
        tree = {
            "kind": "ComponentStatusList", "apiVersion": "v1", "metadata": metadata, "items": bare
        }  # fmt: skip
    return plain_response(server, response_format, tree)


def _object_response(
    server: Server, request: Request, response_format: ResponseFormat, target: Target, obj: Tree
) -> AnyResponse:
    if response_format.is_table:
        table = table_builder(server, request, response_format, target)
        tree = table.head({})
        tree["rows"].append(table.row(obj, current_time(server)))
        return plain_response(server, response_format, tree)
    if response_format.convert is not None:
        return plain_response(
            server, response_format, partial_metadata(obj, response_format.convert.group_version)
        )
    return plain_response(server, response_format, obj)


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
