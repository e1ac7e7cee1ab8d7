"""Replace an object or a subresource. Mirrors UpdateResource of k8s.io/apiserver."""

from __future__ import annotations

from kapiserver.api.accessors import uid_of
from kapiserver.api.types import Tree
from kapiserver.apiserver.caller import Caller
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.endpoints.decode import (
    Body,
    check_name,
    check_namespace,
    decode_object,
    field_validation,
)
from kapiserver.apiserver.endpoints.field_managers import track_ownership
from kapiserver.apiserver.endpoints.operations.guaranteed_update import (
    guaranteed_update,
    names_version,
)
from kapiserver.apiserver.target import Target
from kapiserver.storage.cache.query import Preconditions, Write, WriteResult


async def update_object(
    server: Server, target: Target, caller: Caller, options: Tree, body: Body
) -> WriteResult:
    """Replace the object with the one in the body; the uid in the body is a precondition."""
    validation = field_validation(options)

    def new_object() -> Tree:
        obj = decode_object(server, target, body, validation, caller.warnings)
        check_namespace(target, obj)
        check_name(target, obj)
        return obj

    cost = body.cost + target.kind_info.default_cost(body.data)
    offloader = server.offloader
    first = await offloader.run(cost, new_object)
    if server.audit is not None:
        caller.audit.record_reference(first)
    decoded_objects = iter((first,))

    def change(current: Tree | None) -> Tree:
        # The store may change the object it receives, so each attempt decodes the body again.
        obj = next(decoded_objects, None) or new_object()
        if target.view is not None and current is not None:
            obj = target.view.write(current, obj)
        track_ownership(server, caller, target, options, live=current, new=obj)
        return obj

    write = Write(
        preconditions=Preconditions(uid=uid_of(first) or None),
        may_create=target.strategy.allow_create_on_update,
        reads_only=target.view is None,
        conditional=names_version(first),
        cost=cost,
    )
    return await guaranteed_update(server, target, caller, options, change, write)
