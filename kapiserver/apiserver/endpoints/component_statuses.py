"""componentstatuses: what the server finds when it asks its store how it is.

Deprecated for long; kubectl still asks. Mirrors pkg/registry/core/componentstatus of Kubernetes.
"""

from __future__ import annotations

from kapiserver.api.types import Tree
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.endpoints.negotiation import Wanted, wanted
from kapiserver.apiserver.endpoints.object_responses import now, plain_response, table_of
from kapiserver.apiserver.endpoints.options import read_options, selection_of
from kapiserver.apiserver.endpoints.tables import metadata_alone
from kapiserver.apiserver.errors import NoSuchForm
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse
from kapiserver.apiserver.target import Target
from kapiserver.storage.errors import NotFound

STORE = "etcd-0"
"""What the store is called, whatever it is."""


async def get_or_list(server: Server, request: Request, target: Target) -> AnyResponse:
    """Answer with one component's status, or with all of them. Raises NotFound."""
    answer = _get if request.info.is_item else _list
    return await answer(server, request, target)


async def _get(server: Server, request: Request, target: Target) -> AnyResponse:
    form = wanted(server, request, target)
    if target.key.name != STORE:
        raise NotFound(resource="componentstatuses", group="", name=target.key.name)
    return _answer(server, request, form, target, await _store_status(server))


async def _list(server: Server, request: Request, target: Target) -> AnyResponse:
    form = wanted(server, request, target)
    options = read_options(server, request, "ListOptions")
    selection = selection_of(request.info, options, target.resource)
    found = [await _store_status(server)]
    items = [one for one in found if selection.matches({}, {"metadata.name": STORE})]
    metadata: Tree = {}
    if form.is_table:
        table = table_of(server, request, form, target)
        tree = table.head(metadata)
        tree["rows"] = [table.row(one, now(server)) for one in items]
    elif form.convert is not None:
        if not form.convert.kind.endswith("List"):
            raise NoSuchForm("you requested PartialObjectMetadata, but the object is a list")
        version = form.convert.group_version
        tree = {"kind": form.convert.kind, "apiVersion": str(version), "metadata": metadata}
        tree["items"] = [metadata_alone(one, version) for one in items]
    else:
        bare = [{k: v for k, v in one.items() if k not in ("kind", "apiVersion")} for one in items]
        tree = {
            "kind": "ComponentStatusList", "apiVersion": "v1", "metadata": metadata, "items": bare
        }  # fmt: skip
    return plain_response(server, form, tree)


def _answer(
    server: Server, request: Request, form: Wanted, target: Target, obj: Tree
) -> AnyResponse:
    if form.is_table:
        table = table_of(server, request, form, target)
        tree = table.head({})
        tree["rows"].append(table.row(obj, now(server)))
        return plain_response(server, form, tree)
    if form.convert is not None:
        return plain_response(server, form, metadata_alone(obj, form.convert.group_version))
    return plain_response(server, form, obj)


async def _store_status(server: Server) -> Tree:
    try:
        await server.health.alive["storage"]()
        condition = {"type": "Healthy", "status": "True", "message": "ok"}
    except Exception as error:  # whatever a probe raises is the finding
        condition = {"type": "Healthy", "status": "Unknown", "error": str(error)}
    return {
        "kind": "ComponentStatus",
        "apiVersion": "v1",
        "metadata": {"name": STORE},
        "conditions": [condition],
    }
