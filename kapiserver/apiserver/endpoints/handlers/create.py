"""POST to a collection. Mirrors createHandler of k8s.io/apiserver."""

from __future__ import annotations

from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.chain import admission
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.endpoints.decode import (
    decode_object,
    field_validation,
    place,
    read_body,
)
from kapiserver.apiserver.endpoints.field_managers import follow
from kapiserver.apiserver.endpoints.negotiation import wanted
from kapiserver.apiserver.endpoints.object_responses import answer_entry
from kapiserver.apiserver.endpoints.options import is_dry_run, read_options
from kapiserver.apiserver.errors import MethodNotAllowed
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import Answer
from kapiserver.apiserver.target import Target


async def create(server: Server, request: Request, target: Target) -> Answer:
    """Create the object in the body and answer with it as it was stored."""
    if target.key.name or (target.resource.namespaced and not target.key.namespace):
        raise MethodNotAllowed
    form = wanted(server, request, target)
    body = await read_body(server, request, target)
    options = read_options(server, request, "CreateOptions")
    validation = field_validation(options)

    def wanted_object() -> Tree:
        obj = decode_object(server, target, body, validation, request.warnings)
        place(target, obj)
        follow(server, request, target, options, live=None, new=obj)
        return obj

    obj = await server.stores.aside.sized(len(body.data), wanted_object)
    dry_run = is_dry_run(options)
    written = await target.store.create(
        obj,
        namespace=target.key.namespace,
        admit=admission(server, request, target, dry_run=dry_run),
        dry_run=dry_run,
    )
    for text in written.warnings:
        request.warnings.add(text)
    return answer_entry(server, request, form, target, written.entry, 201)
