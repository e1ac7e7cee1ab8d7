"""PUT of an object or a subresource. Mirrors UpdateResource of k8s.io/apiserver."""

from __future__ import annotations

from kapiserver.api.objects import uid_of
from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.chain import admission
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.endpoints.decode import (
    check_name,
    decode_object,
    field_validation,
    place,
    read_body,
)
from kapiserver.apiserver.endpoints.field_managers import follow
from kapiserver.apiserver.endpoints.negotiation import wanted
from kapiserver.apiserver.endpoints.object_responses import answer_entry
from kapiserver.apiserver.endpoints.options import is_dry_run, read_options
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import Answer
from kapiserver.apiserver.target import Target
from kapiserver.storage.query import Preconditions


async def update(server: Server, request: Request, target: Target) -> Answer:
    """Replace the object by the one in the body and answer with it as it was stored."""
    form = wanted(server, request, target)
    body = await read_body(server, request, target)
    options = read_options(server, request, "UpdateOptions")
    validation = field_validation(options)

    def wanted_object() -> Tree:
        obj = decode_object(server, target, body, validation, request.warnings)
        place(target, obj)
        check_name(target, obj)
        return obj

    first = await server.stores.aside.sized(len(body.data), wanted_object)
    fresh = iter((first,))

    def change(current: Tree | None) -> Tree:
        # The store may change what it is given, so that each try decodes anew.
        obj = next(fresh, None) or wanted_object()
        if target.view is not None and current is not None:
            obj = target.view.write(current, obj)
        follow(server, request, target, options, live=current, new=obj)
        return obj

    dry_run = is_dry_run(options)
    written = await target.store.update(
        target.key,
        change,
        subresource=target.subresource,
        preconditions=Preconditions(uid=uid_of(first) or None),
        admit=admission(server, request, target, dry_run=dry_run),
        dry_run=dry_run,
        may_create=server.scheme.strategy(
            target.resource, target.subresource
        ).allow_create_on_update,
    )
    for text in written.warnings:
        request.warnings.add(text)
    status = 201 if written.outcome == "created" else 200
    return answer_entry(server, request, form, target, written.entry, status)
