"""GET of a collection. Mirrors ListResource of k8s.io/apiserver, less its watch."""

from __future__ import annotations

from kapiserver.api.types import Tree
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.endpoints.negotiation import wanted
from kapiserver.apiserver.endpoints.object_responses import answer_listing, prepare_listing
from kapiserver.apiserver.endpoints.options import read_options, selection_of
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import Answer
from kapiserver.apiserver.target import Target
from kapiserver.storage.query import ListQuery


async def list_(server: Server, request: Request, target: Target) -> Answer:
    """Answer with the list, or a page of it."""
    form = wanted(server, request, target)
    options = read_options(server, request, "ListOptions")
    listing = await target.store.list(list_query(request, target, options))
    await prepare_listing(form, target, listing)
    return await answer_listing(server, request, form, target, listing)


def list_query(request: Request, target: Target, options: Tree) -> ListQuery:
    """ListOptions as the store takes them. Raises BadObject."""
    return ListQuery(
        namespace=target.key.namespace,
        selection=selection_of(request, options, target.resource),
        resource_version=options.get("resourceVersion") or "",
        match=options.get("resourceVersionMatch") or "",
        limit=options.get("limit") or 0,
        continue_token=options.get("continue") or "",
    )
