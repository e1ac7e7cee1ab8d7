"""Delete one object, or the objects of a collection. Mirrors DeleteResource and DeleteCollection of
k8s.io/apiserver."""

from __future__ import annotations

from msgspec.structs import replace

from kapiserver.api.accessors import uid_of
from kapiserver.api.errors import NotRegistered
from kapiserver.api.group import GroupVersionKind
from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.chain import admission
from kapiserver.apiserver.caller import Caller
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.endpoints.decode import Body
from kapiserver.apiserver.endpoints.operations.unsafe_delete import check_collection
from kapiserver.apiserver.endpoints.options import check_delete_options, delete_query
from kapiserver.apiserver.errors import BadRequest, Forbidden
from kapiserver.apiserver.status import SUCCESS, details
from kapiserver.apiserver.target import Target
from kapiserver.codecs.errors import UnknownKind
from kapiserver.storage.cache.query import ListQuery, ListResult, WriteResult

_OPTIONS = GroupVersionKind("meta.k8s.io", "v1", "DeleteOptions")
_SCHEME = 'in scheme "pkg/apis/meta/internalversion/scheme/register.go:27"'
"""The file in which kube-apiserver creates the scheme of options."""


def delete_options(server: Server, target: Target, body: Body) -> Tree:
    """Return the DeleteOptions in a body. Raises CodecError, BadRequest, InvalidObject."""
    # Clients may also send DeleteOptions in the version of the resource.
    try:
        decoded = body.decode(server, _OPTIONS)
    except UnknownKind as error:
        raise BadRequest(f"{error} {_SCHEME}") from None
    kind = decoded.kind
    if kind.kind != "DeleteOptions":
        raise BadRequest(f"{NotRegistered.of_kind(kind)} {_SCHEME}")
    return check_delete_options(server, decoded.object)


async def delete_object(
    server: Server, target: Target, caller: Caller, options: Tree
) -> WriteResult:
    """Delete the object, or mark it as terminating; `options` are DeleteOptions."""
    query = delete_query(options)
    refusal = target.strategy.deletion_refusal(target.key.name)
    if refusal:
        resource = target.resource
        raise Forbidden(refusal, resource=resource.name, group=resource.group, name=target.key.name)
    _warn_of_dependents(target, caller, options)
    result = await target.store.delete(
        target.key, query, admit=admission(server, caller, target, options, dry_run=query.dry_run)
    )
    for text in result.warnings:
        caller.warnings.add(text)
    return result


async def deleted_status(server: Server, target: Target, result: WriteResult) -> Tree | None:
    """Return the Status in the response to a delete; None if the response is the object."""
    if result.outcome != "deleted" or target.resource.returns_deleted_object:
        return None
    info = details(
        name=result.entry.key.name,
        group=target.resource.group,
        kind=target.resource.name,
        uid=uid_of(await server.offloader.tree(result.entry)),
    )
    return {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": SUCCESS, "details": info,
    }  # fmt: skip


async def delete_objects(
    server: Server, target: Target, caller: Caller, options: Tree, list_query: ListQuery
) -> ListResult:
    """Delete the objects that a query selects and return them; `options` are DeleteOptions."""
    check_collection(options)
    query = delete_query(options)
    _warn_of_dependents(target, caller, options)
    listing = await target.store.list(replace(list_query, limit=1))
    results = await target.store.delete_collection(
        list_query, query, admit=admission(server, caller, target, options, dry_run=query.dry_run)
    )
    return ListResult(entries=[result.entry for result in results], revision=listing.revision)


def _warn_of_dependents(target: Target, caller: Caller, options: Tree) -> None:
    # The default propagation policy of some kinds may surprise, so warn if the client sets none.
    if all(options.get(name) is None for name in ("propagationPolicy", "orphanDependents")):
        caller.warnings.add(target.strategy.deletion_warning)
