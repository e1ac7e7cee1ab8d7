"""Create an object. Mirrors createHandler of k8s.io/apiserver."""

from __future__ import annotations

from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.chain import admission
from kapiserver.apiserver.caller import Caller
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.endpoints.decode import (
    Body,
    check_namespace,
    decode_object,
    field_validation,
)
from kapiserver.apiserver.endpoints.field_managers import track_ownership
from kapiserver.apiserver.endpoints.options import is_dry_run
from kapiserver.apiserver.target import Target
from kapiserver.storage.cache.query import Write, WriteResult
from kapiserver.storage.objects.lifecycle import clear_system_metadata


async def create_object(
    server: Server, target: Target, caller: Caller, options: Tree, body: Body
) -> WriteResult:
    """Create the object in the body in the target's collection."""
    validation = field_validation(options)

    def new_object() -> Tree:
        obj = decode_object(server, target, body, validation, caller.warnings)
        check_namespace(target, obj)
        if server.audit is not None:
            caller.audit.record_reference(obj)
        clear_system_metadata(obj)
        track_ownership(server, caller, target, options, live=None, new=obj)
        return obj

    cost = body.cost + target.kind_info.default_cost(body.data)
    offloader = server.offloader
    obj = await offloader.run(cost, new_object)
    dry_run = is_dry_run(options)
    write = Write(
        admit=admission(server, caller, target, options, dry_run=dry_run),
        dry_run=dry_run,
        cost=cost,
    )
    result = await target.store.create(obj, write, namespace=target.key.namespace)
    for text in result.warnings:
        caller.warnings.add(text)
    return result
