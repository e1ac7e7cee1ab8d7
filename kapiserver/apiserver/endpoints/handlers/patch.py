"""PATCH of an object or a subresource. Mirrors PatchResource of k8s.io/apiserver."""

from __future__ import annotations

from kapiserver.api.errors import BadObject
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.endpoints.decode import count_body, field_validation
from kapiserver.apiserver.endpoints.go_restful import check_content_type
from kapiserver.apiserver.endpoints.negotiation import negotiate_response
from kapiserver.apiserver.endpoints.object_responses import entry_response
from kapiserver.apiserver.endpoints.operations.apply import (
    APPLY_TYPES,
    apply_configuration,
    read_configuration,
)
from kapiserver.apiserver.endpoints.operations.patch import (
    PATCH_TYPES,
    UndecodablePatch,
    accepted_patches,
    patch_object,
    read_patch,
)
from kapiserver.apiserver.endpoints.options import apply_rules, read_options
from kapiserver.apiserver.errors import BadRequest
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse
from kapiserver.apiserver.target import Target
from kapiserver.codecs.cost import LARGE, cost_of
from kapiserver.codecs.errors import UnsupportedMediaType


async def patch(server: Server, request: Request, target: Target) -> AnyResponse:
    """Patch the object and return it as stored."""
    content_type, media_types = request.header("Content-Type"), accepted_patches(server, target)
    name = content_type.partition(";")[0].strip()
    if name not in media_types:
        if target.kind_info.has_protobuf:  # kube-apiserver has a route of go-restful
            check_content_type(content_type, media_types)
            negotiate_response(server, request, target)
        raise UnsupportedMediaType(media_types)
    if name in APPLY_TYPES:
        return await _apply(server, request, target, name)
    response_format = negotiate_response(server, request, target)
    data = await request.read_body(server.config.limits.body_limit)
    count_body(server, request, data)
    options = read_options(server, request, "PatchOptions")
    cost = cost_of(data) + target.kind_info.default_cost(data)
    offloader, validation = server.offloader, field_validation(options)
    try:
        content = await offloader.run(cost, read_patch, PATCH_TYPES[name], data, validation)
    except (BadRequest, BadObject) as error:
        if not isinstance(error, UndecodablePatch):
            await target.store.get(target.key)  # kube-apiserver reads the object first
        raise
    if cost < LARGE and content.type.copies(content.content):
        cost += LARGE
    result = await patch_object(server, target, request.caller(), options, content, cost=cost)
    return await entry_response(server, request, response_format, target, result.entry)


async def _apply(server: Server, request: Request, target: Target, media: str) -> AnyResponse:
    """Apply the configuration in the body and return the object as stored."""
    response_format = negotiate_response(server, request, target)
    data = await request.read_body(server.config.limits.body_limit)
    count_body(server, request, data)
    options = read_options(server, request, "PatchOptions", rules=apply_rules)
    cost = cost_of(data) + target.kind_info.default_cost(data)
    content = await server.offloader.run(cost, read_configuration, media, data)
    caller = request.caller()
    result = await apply_configuration(server, target, caller, options, content, cost=cost)
    status = 201 if result.outcome == "created" else 200
    return await entry_response(server, request, response_format, target, result.entry, status)
