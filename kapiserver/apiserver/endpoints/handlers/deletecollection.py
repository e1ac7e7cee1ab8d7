"""DELETE of a collection: what a list would give. Mirrors DeleteCollection of k8s.io/apiserver."""

from __future__ import annotations

from dataclasses import replace

from kapiserver.apiserver.admission.chain import admission
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.endpoints.handlers.delete import read_delete_options, warn_of_dependents
from kapiserver.apiserver.endpoints.handlers.list import list_query
from kapiserver.apiserver.endpoints.negotiation import wanted
from kapiserver.apiserver.endpoints.object_responses import answer_listing
from kapiserver.apiserver.endpoints.options import delete_query, read_options
from kapiserver.apiserver.errors import MethodNotAllowed
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import Answer
from kapiserver.apiserver.target import Target
from kapiserver.storage.query import Listing


async def deletecollection(server: Server, request: Request, target: Target) -> Answer:
    """Delete what the selectors select and answer with the list of it."""
    if target.resource.namespaced and not target.key.namespace:
        raise MethodNotAllowed
    form = wanted(server, request, target)
    options = read_options(server, request, "ListOptions")
    deletion = await read_delete_options(server, request, target)
    query = delete_query(deletion)
    warn_of_dependents(server, request, target, deletion)
    listed = list_query(request, target, options)
    before = await target.store.list(replace(listed, limit=1))
    written = await target.store.delete_collection(
        listed, query, admit=admission(server, request, target, dry_run=query.dry_run)
    )
    entries = [one.entry for one in written]
    listing = Listing(entries=entries, revision=before.revision)
    return await answer_listing(server, request, form, target, listing)
