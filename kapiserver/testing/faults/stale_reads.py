"""Reads of a past revision, as from a server that lags behind the store."""

from __future__ import annotations

from kapiserver.apiserver.context import Server
from kapiserver.apiserver.endpoints.negotiation import negotiate_response
from kapiserver.apiserver.endpoints.object_responses import entry_response
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse
from kapiserver.apiserver.target_resolver import resolve_target
from kapiserver.storage.cache.query import ListQuery
from kapiserver.storage.errors import NotFound


async def stale_response(server: Server, request: Request, revision: int) -> AnyResponse | None:
    """Return the response to a get as of a revision. Make a list read that revision and return
    None, as for every other request. Raises NotFound, Expired if the revision was compacted."""
    info = request.info
    if info.verb == "list" and not request.parameter("continue"):
        exact = {"resourceVersion": [str(revision)], "resourceVersionMatch": ["Exact"]}
        request.query = {**request.query, **exact}
    if info.verb != "get" or not info.is_resource_request:
        return None
    target = await resolve_target(server, info)
    target.check_verb(info.verb)
    request.target = target
    response_format = negotiate_response(server, request, target)
    key = target.key
    query = ListQuery(namespace=key.namespace, resource_version=str(revision), match="Exact")
    for entry in (await target.store.list(query)).entries:
        if entry.key == key:
            return await entry_response(server, request, response_format, target, entry)
    raise NotFound(resource=info.resource, group=info.version.group, name=info.name)
