"""DELETE of one object. Mirrors DeleteResource of k8s.io/apiserver."""

from __future__ import annotations

from kapiserver.api.objects import uid_of
from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.chain import admission
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.endpoints.decode import Body, media_type_of
from kapiserver.apiserver.endpoints.negotiation import Wanted, wanted
from kapiserver.apiserver.endpoints.object_responses import answer_entry, answer_plain
from kapiserver.apiserver.endpoints.options import check_options, delete_query, read_options
from kapiserver.apiserver.errors import BadRequest, Forbidden
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import Answer
from kapiserver.apiserver.status import SUCCESS, details
from kapiserver.apiserver.target import Target
from kapiserver.storage.entry import Entry

KIND = "DeleteOptions"


async def delete(server: Server, request: Request, target: Target) -> Answer:
    """Delete the object, or mark it as terminating."""
    form = wanted(server, request, target)
    options = await read_delete_options(server, request, target)
    query = delete_query(options)
    refused = server.scheme.strategy(target.resource).undeletable(target.key.name)
    if refused:
        about = target.resource
        raise Forbidden(refused, resource=about.name, group=about.group, name=target.key.name)
    warn_of_dependents(server, request, target, options)
    written = await target.store.delete(
        target.key, query, admit=admission(server, request, target, dry_run=query.dry_run)
    )
    for text in written.warnings:
        request.warnings.add(text)
    if written.outcome == "deleted" and not target.resource.returns_deleted_object:
        return answer_plain(server, _without_conversion(form), _gone(target, written.entry))
    waits = written.outcome == "terminating" and options.get("orphanDependents") is False
    return answer_entry(server, request, form, target, written.entry, 202 if waits else 200)


async def read_delete_options(server: Server, request: Request, target: Target) -> Tree:
    """DeleteOptions from the body, or without one from the query. Raises BadRequest,
    InvalidObject."""
    data = await request.read_body(server.config.body_limit)
    if not data:
        return read_options(server, request, KIND)
    body = Body(data=data, media=media_type_of(server, request, target))
    serializer = server.codecs.body_serializer_for(body.media)
    # Clients may send them in the version of the resource, too.
    decoded = serializer.decode(body.data, defaults=target.version.with_kind(KIND))
    if decoded.kind.kind != KIND:
        raise BadRequest("decoded object cannot be converted to DeleteOptions")
    check_options(decoded.object, KIND)
    return decoded.object


def warn_of_dependents(server: Server, request: Request, target: Target, options: Tree) -> None:
    """Say what becomes of dependents when the client does not, where that may surprise."""
    if all(options.get(name) is None for name in ("propagationPolicy", "orphanDependents")):
        text = server.scheme.strategy(target.resource).deletion_warning
        if text:
            request.warnings.add(text)


def _without_conversion(form: Wanted) -> Wanted:
    return Wanted(media=form.media, pretty=form.pretty)  # a Status is never made a Table


def _gone(target: Target, entry: Entry) -> Tree:
    about = details(
        name=entry.key.name,
        group=target.resource.group,
        kind=target.resource.name,
        uid=uid_of(entry.tree()),
    )
    return {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": SUCCESS, "details": about,
    }  # fmt: skip
