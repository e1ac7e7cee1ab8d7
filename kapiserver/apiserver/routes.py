"""From a request to what answers it: paths that are no resource, then the verb's handler.

Routes of resources are not listed: they follow from the scheme, one lookup each.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import TypeAlias

from kapiserver.api.errors import NotRegistered
from kapiserver.api.group import deprecation_of
from kapiserver.apiserver.context import Handler, Server
from kapiserver.apiserver.discovery import discovery
from kapiserver.apiserver.discovery.server_info import health, paths, version
from kapiserver.apiserver.endpoints.handlers import handler_of_verb
from kapiserver.apiserver.endpoints.subresources import handler_of
from kapiserver.apiserver.errors import MethodNotAllowed, UnknownResource
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import Answer, page_not_found
from kapiserver.apiserver.target import resource_of

VerbHandler: TypeAlias = Callable[[Server, Request], Awaitable[Answer]]


def route(server: Server) -> Handler:
    """What stands behind the filters."""

    async def handle(request: Request) -> Answer:
        info = request.info
        if not info.is_resource_request:
            return await _answer_path(server, request)
        if not await _knows(server, request):
            return page_not_found()
        # HEAD is a verb to authorization only: kube-apiserver has no route for it.
        if info.verb not in verbs_at(server, request) or request.method == "HEAD":
            raise MethodNotAllowed
        if info.verb == "create" and _is_leaving(server, request):
            raise MethodNotAllowed(
                "create not allowed while custom resource definition is terminating"
            )
        _warn(server, request)
        answered = ANSWERED.get((info.version.group, info.resource))
        handler = answered or handler_of(info) or handler_of_verb(info.verb)
        return await handler(server, request)

    return handle


def _is_leaving(server: Server, request: Request) -> bool:
    definition = server.scheme.custom.by_plural(request.info.version.group, request.info.resource)
    return definition is not None and definition.terminating


def _warn(server: Server, request: Request) -> None:
    # A subresource of another kind has a life of its own.
    info, resource = request.info, resource_of(server, request)
    if not resource.deprecations:
        return
    other = {one.name for one in resource.subresources if one.kind is not None}
    if info.subresource not in other:
        request.warnings.add(deprecation_of(resource, info.version))


async def _openapi(server: Server, request: Request) -> Answer:
    from kapiserver.apiserver.discovery import openapi  # large, and most servers are never asked

    return await openapi.answer(server, request)


async def _issuer(server: Server, request: Request) -> Answer:
    from kapiserver.apiserver.discovery import oidc  # most servers are never asked

    return await oidc.answer(server, request)


async def _review(server: Server, request: Request) -> Answer:
    from kapiserver.apiserver.endpoints import reviews

    return await reviews.review(server, request)


async def _component_statuses(server: Server, request: Request) -> Answer:
    from kapiserver.apiserver.endpoints import component_statuses

    ask = component_statuses.get if request.info.is_item else component_statuses.list_
    return await ask(server, request)


ANSWERED: dict[tuple[str, str], VerbHandler] = {
    ("", "componentstatuses"): _component_statuses,
    ("authentication.k8s.io", "selfsubjectreviews"): _review,
    ("authentication.k8s.io", "tokenreviews"): _review,
    ("authorization.k8s.io", "localsubjectaccessreviews"): _review,
    ("authorization.k8s.io", "selfsubjectaccessreviews"): _review,
    ("authorization.k8s.io", "selfsubjectrulesreviews"): _review,
    ("authorization.k8s.io", "subjectaccessreviews"): _review,
}
"""What answers for resources that are not stored, by group and name; loaded when first asked."""

PATHS: dict[str, VerbHandler] = {
    "": paths,
    "api": discovery.answer,
    "apis": discovery.answer,
    "openapi": _openapi,
    "version": version,
    "healthz": health,
    "livez": health,
    "readyz": health,
    "openid": _issuer,
    ".well-known": _issuer,
}
"""What answers a path that is no resource, by its first segment."""


async def _answer_path(server: Server, request: Request) -> Answer:
    first = request.path.strip("/").partition("/")[0]
    answer = PATHS.get(first)
    return await answer(server, request) if answer is not None else page_not_found()


async def _knows(server: Server, request: Request) -> bool:
    """Whether there is such a group. The core group is served below /api, all others below
    /apis."""
    info, scheme = request.info, server.scheme
    group = info.version.group
    if (info.prefix == "api") != (group == ""):
        return False
    try:
        scheme.resource(info.version, info.resource)
    except NotRegistered:
        # Another server may have established a definition just now.
        await server.custom_resources.look_up(group, info.resource)
    await server.custom_resources.read(info.version, info.resource)
    return scheme.has_group(group)


_OF_ITEMS = ("get", "update", "patch", "delete", "watch")
_OF_COLLECTIONS = ("list", "watch", "create", "deletecollection")
_ACROSS_NAMESPACES = ("list", "watch")


def verbs_at(server: Server, request: Request) -> Collection[str]:
    """The verbs that the request's path takes. Raises UnknownResource where there is no such."""
    info = request.info
    resource = resource_of(server, request)
    if info.trailing and info.subresource != "proxy":
        raise UnknownResource
    across = resource.namespaced and not info.namespace
    if info.is_item and across:
        raise UnknownResource
    if not resource.namespaced and info.namespace and resource.name != "namespaces":
        raise UnknownResource
    if info.subresource:
        for subresource in resource.subresources:
            if subresource.name == info.subresource:
                return subresource.verbs
        raise UnknownResource
    possible = _OF_ITEMS if info.is_item else _ACROSS_NAMESPACES if across else _OF_COLLECTIONS
    found = [verb for verb in resource.verbs if verb in possible]
    if info.is_item and not found:  # questions that are answered and gone
        raise UnknownResource
    return found
