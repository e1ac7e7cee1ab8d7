"""The handlers of what functions answer: subresources of a program, and calls.

Filters have authenticated and authorized the request. The functions get instances of the class of
the resource, and their results become responses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import orjson

from kapiserver.api.accessors import name_of, namespace_of
from kapiserver.api.custom_kinds import CustomKinds
from kapiserver.api.errors import InvalidObject
from kapiserver.api.group import GroupVersionKind
from kapiserver.api.types import Tree
from kapiserver.apiserver.caller import Caller
from kapiserver.apiserver.context import CallHandler, Server, SubresourceHandler
from kapiserver.apiserver.errors import BadRequest
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse, Response
from kapiserver.apiserver.status import status
from kapiserver.apiserver.target import Target
from kapiserver.extension.call import Call
from kapiserver.extension.kinds import DeclaredKind, DeclaredVersion
from kapiserver.extension.objects import Object, write
from kapiserver.extension.resources import Connect

_JSON, _TEXT, _BYTES = "application/json", "text/plain; charset=utf-8", "application/octet-stream"


def declared(kinds: CustomKinds) -> Iterable[DeclaredKind]:
    """Return the declared kinds among kinds."""
    return (definition for definition in kinds if isinstance(definition, DeclaredKind))


def call_handlers(kinds: CustomKinds) -> Mapping[tuple[str, str], CallHandler]:
    """Return the handlers of resources whose objects are calls, by group and plural name."""
    return {
        (kind.group, kind.plural): _answer
        for kind in declared(kinds)
        if kind.declared.functions.answer is not None
    }


def subresource_handlers(
    kinds: CustomKinds,
) -> Mapping[tuple[str, str, str], SubresourceHandler]:
    """Return the handlers of subresources, by group, plural name and subresource."""
    return {
        (kind.group, kind.plural, name): _connect(connect)
        for kind in declared(kinds)
        for name, connect in kind.declared.functions.connects.items()
    }


async def _answer(server: Server, kind: GroupVersionKind, caller: Caller, obj: Tree) -> Tree:
    """Return the object of a call as its function answers it. Raises InvalidObject."""
    version = server.scheme.object_info(kind)
    assert isinstance(version, DeclaredVersion)
    errors = version.kind_strategy.validate(obj)
    if errors:
        raise InvalidObject(group=kind.group, kind=kind.kind, name=name_of(obj), errors=errors)
    call = Call(
        user=caller.user,
        client=server.client(caller.user, authorize=False),
        namespace=namespace_of(obj),
        name=name_of(obj),
    )
    answer = version.functions.answer
    assert answer is not None  # call_handlers checks it
    return version.tree_of(await answer(call, version.hub_object(obj)))


def _connect(connect: Connect) -> SubresourceHandler:
    async def handle(server: Server, request: Request, target: Target) -> AnyResponse:
        version = target.kind_info
        assert isinstance(version, DeclaredVersion)
        obj = await _object(version, target) if connect.of_objects else None
        call = Call(
            user=request.user,
            client=server.client(request.user, authorize=False),
            namespace=target.key.namespace,
            name=target.key.name,
            method=request.method,
            query=request.query,
            body=await request.read_body(server.config.limits.body_limit),
        )
        return _response(version, await connect.function(call, obj))

    return handle


async def _object(version: DeclaredVersion, target: Target) -> Object:
    """Return the object that a request names. Raises NotFound, BadRequest."""
    entry = await target.store.get(target.key)
    try:
        return version.hub_object(entry.tree())
    except msgspec.ValidationError as error:
        raise BadRequest(f"the stored object does not fit its class: {error}") from None


def _response(version: DeclaredVersion, result: Any) -> Response:
    """Return the response for what a function returned."""
    if result is None:
        result = status(code=200, message="", outcome="Success")
    elif isinstance(result, version.declared.type):
        result = version.tree_of(result)
    elif isinstance(result, Object):
        names = {"apiVersion": str(version.group_version), "kind": type(result).__name__}
        result = names | {name: value for name, value in write(result).items() if value}
    if isinstance(result, dict):
        return Response(media_type=_JSON, body=orjson.dumps(result))
    if isinstance(result, str):
        return Response(media_type=_TEXT, body=result.encode("utf-8", "replace"))
    if isinstance(result, bytes):
        return Response(media_type=_BYTES, body=result)
    return Response(media_type=_TEXT, body=result, is_endless=True)
