"""Routes a request to its handler: by path for non-resource requests, else by verb and resource.

Resources have no routes of their own; one lookup in the scheme resolves them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from kapiserver.api.lazy import lazy
from kapiserver.apiserver.context import Handler, Server
from kapiserver.apiserver.discovery import discovery
from kapiserver.apiserver.discovery.server_info import serve_health, serve_paths, serve_version
from kapiserver.apiserver.endpoints.handlers import VerbHandler, handler_of_verb
from kapiserver.apiserver.endpoints.subresources import handler_of_subresource, load_bind
from kapiserver.apiserver.errors import MethodNotAllowed, UnknownGroup
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse, page_not_found
from kapiserver.apiserver.target_resolver import resolve_target

PathHandler: TypeAlias = Callable[[Server, Request], Awaitable[AnyResponse]]
"""Handles a non-resource request."""

PROXY_METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")
"""The methods of requests that are passed on; OPTIONS has no verb."""


def route(server: Server) -> Handler:
    """Return the handler that the filters wrap."""
    unstored = UNSTORED | _calls(server)

    async def handle(request: Request) -> AnyResponse:
        info = request.info
        if not info.is_resource_request:
            return await _handle_path(server, request)
        try:
            target = await resolve_target(server, info)
        except UnknownGroup:
            return page_not_found()
        if target.subresource == "proxy":
            if request.method not in PROXY_METHODS:
                raise MethodNotAllowed
        # Authorization treats HEAD as get and each method of a /watch/ path as watch, but
        # kube-apiserver has no routes for them.
        elif request.method == "HEAD" or (info.verb == "watch" and request.method != "GET"):
            raise MethodNotAllowed
        else:
            target.check_verb(info.verb)
        request.target = target
        request.warnings.add(target.deprecation)
        load = unstored.get((info.version.group, info.resource))
        if load is not None:
            unstored_handler = await server.offloader.run(0, load)
            return await unstored_handler(server, request, target)
        handler = handler_of_subresource(target) if target.subresource else None
        return await (handler or handler_of_verb(info.verb))(server, request, target)

    return handle


_load_review: Callable[[], VerbHandler] = lazy(
    "kapiserver.apiserver.endpoints.reviews:serve_review"
)

UNSTORED: dict[tuple[str, str], Callable[[], VerbHandler]] = {
    ("", "bindings"): load_bind,
    ("", "componentstatuses"): lazy(
        "kapiserver.apiserver.endpoints.component_statuses:get_or_list"
    ),
    ("authentication.k8s.io", "selfsubjectreviews"): _load_review,
    ("authentication.k8s.io", "tokenreviews"): _load_review,
    ("authorization.k8s.io", "localsubjectaccessreviews"): _load_review,
    ("authorization.k8s.io", "selfsubjectaccessreviews"): _load_review,
    ("authorization.k8s.io", "selfsubjectrulesreviews"): _load_review,
    ("authorization.k8s.io", "subjectaccessreviews"): _load_review,
}
"""Handlers of resources that are never stored, by group and name (see `media_types.py` on late
loading)."""


def _calls(server: Server) -> dict[tuple[str, str], Callable[[], VerbHandler]]:
    """Return the rows of the calls of added groups."""
    resources = (resource for group in server.calls for resource in server.scheme.resources(group))
    return {(resource.group, resource.name): _load_review for resource in resources}


def _loaded_by(load: Callable[[], PathHandler]) -> PathHandler:
    async def handle(server: Server, request: Request) -> AnyResponse:
        loaded = await server.offloader.run(0, load)
        return await loaded(server, request)

    return handle


_load_oidc: Callable[[], PathHandler] = lazy("kapiserver.apiserver.discovery.oidc:serve_oidc")

PATHS: dict[str, PathHandler] = {
    "": serve_paths,
    "api": discovery.serve_discovery,
    "apis": discovery.serve_discovery,
    "openapi": _loaded_by(lazy("kapiserver.apiserver.discovery.openapi:serve_openapi")),
    "version": serve_version,
    "healthz": serve_health,
    "livez": serve_health,
    "readyz": serve_health,
    "metrics": _loaded_by(lazy("kapiserver.apiserver.serving.exposition:serve_metrics")),
    "openid": _loaded_by(_load_oidc),
    ".well-known": _loaded_by(_load_oidc),
}
"""Handlers of non-resource paths, by the first segment."""


async def _handle_path(server: Server, request: Request) -> AnyResponse:
    first_segment = request.path.strip("/").partition("/")[0]
    handle = PATHS.get(first_segment)
    return await handle(server, request) if handle is not None else page_not_found()
