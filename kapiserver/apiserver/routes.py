"""Routes a request to its handler: by path for non-resource requests, else by verb and resource.

Resources have no routes of their own; one lookup in the scheme resolves them.
"""

from __future__ import annotations

from kapiserver.api.lazy import Lazy, lazy, loaded
from kapiserver.apiserver.context import AggregatedHandler, Handler, PathHandler, Server
from kapiserver.apiserver.discovery import discovery
from kapiserver.apiserver.discovery.server_info import serve_health, serve_paths, serve_version
from kapiserver.apiserver.endpoints.handlers import HANDLERS, VerbHandler
from kapiserver.apiserver.endpoints.subresources import handler_of_subresource, lazy_bind
from kapiserver.apiserver.errors import BadRequest, MethodNotAllowed, UnknownGroup, UnknownResource
from kapiserver.apiserver.filters.in_flight import delegate
from kapiserver.apiserver.first_request import first_request
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.request_info import RequestInfo, has_empty_step
from kapiserver.apiserver.response import AnyResponse, page_not_found
from kapiserver.apiserver.target import Target
from kapiserver.apiserver.target_resolver import find_target, resolve_target
from kapiserver.apiserver.tracing.handler_spans import handler_span

PROXY_METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")
"""The methods of requests that are passed on; OPTIONS has no verb."""


def route(server: Server) -> Handler:
    """Return the handler that the filters wrap."""
    unstored = UNSTORED | dict.fromkeys(server.calls, _lazy_review)
    subresources = {key: loaded(handler) for key, handler in server.subresources.items()}

    async def handle(request: Request) -> AnyResponse:
        info = request.info
        api_service = server.api_services.find(request.path)
        if api_service is not None:
            serve_aggregated = await server.offloader.load(_lazy_aggregated)
            return await delegate(server, request, serve_aggregated(server, request, api_service))
        if not info.resource:
            return await _handle_path(server, request)
        if info.version.group in server.computed:
            serve_computed = await server.offloader.load(_lazy_computed)
            return await serve_computed(server, request)
        try:
            target = find_target(server, info) or await resolve_target(server, info)
        except (UnknownGroup, UnknownResource) as error:
            return await _handle_unknown(server, request, error)
        if target.subresource == "proxy":
            if request.method not in PROXY_METHODS:
                raise MethodNotAllowed
        # Authorization treats HEAD as get and each method of a /watch/ path as watch, but
        # kube-apiserver has no routes for them; custom kinds are served by verb.
        elif request.method != "GET" and (
            info.verb == "watch" or (request.method == "HEAD" and target.kind_info.has_protobuf)
        ):
            raise MethodNotAllowed
        else:
            target.check_verb(info.verb)
        if info.has_empty_namespace and not _needs_no_namespace(info, target):
            raise BadRequest("Namespace parameter required.")
        request.target = target
        if target.resource.deprecations:
            request.warnings.add(target.deprecation)
        media_type = ""
        lazy_handler = unstored.get((info.version.group, info.resource))
        if lazy_handler is None and target.subresource:
            key = (info.version.group, info.resource, target.subresource)
            lazy_handler = subresources.get(key) or handler_of_subresource(target)
        if lazy_handler is None:
            lazy_handler = HANDLERS[info.verb]
            if info.verb in _VERBS_WITH_BODY:
                media_type = request.header("Content-Type").partition(";")[0].strip()
        use = (info.verb, target.subresource, media_type)
        if use in target.kind_info.loaded_uses:
            return await lazy_handler()(server, request, target)
        async with first_request(server.offloader, target, use, lazy_handler):
            return await lazy_handler()(server, request, target)

    async def handle_in_span(request: Request) -> AnyResponse:
        with handler_span(request):
            return await handle(request)

    return handle if server.tracer is None else handle_in_span


def _needs_no_namespace(info: RequestInfo, target: Target) -> bool:
    """Whether a request with an empty namespace reads all namespaces, or creates an object, which
    validation refuses."""
    is_create = info.verb == "create" and target.resource.stored
    return not info.is_item and (is_create or info.verb in ("list", "watch"))


async def _handle_unknown(
    server: Server, request: Request, error: UnknownGroup | UnknownResource
) -> AnyResponse:
    """Return the response for a resource that this server does not serve: that of a peer which
    serves it, if there is one. Raises UnknownResource, and the errors of `serve_by_peer`."""
    if server.peers is not None:
        from kapiserver.apiserver.proxy.peers import is_for_peer, serve_by_peer  # most need none

        if is_for_peer(server.peers, request):
            served = serve_by_peer(server, request, server.peers)
            return await delegate(server, request, served)
    if isinstance(error, UnknownGroup):
        return page_not_found()
    raise error


_VERBS_WITH_BODY = ("create", "patch", "update")
"""The verbs whose handlers refuse a media type that they do not know."""

_lazy_review: Lazy[VerbHandler] = lazy("kapiserver.apiserver.endpoints.reviews:serve_review")

_lazy_aggregated: Lazy[AggregatedHandler] = lazy(
    "kapiserver.apiserver.proxy.aggregator:serve_aggregated"
)
_lazy_computed: Lazy[PathHandler] = lazy("kapiserver.apiserver.endpoints.computed:serve_computed")
UNSTORED: dict[tuple[str, str], Lazy[VerbHandler]] = {
    ("", "bindings"): lazy_bind,
    ("", "componentstatuses"): lazy(
        "kapiserver.apiserver.endpoints.component_statuses:get_or_list"
    ),
    ("authentication.k8s.io", "selfsubjectreviews"): _lazy_review,
    ("authentication.k8s.io", "tokenreviews"): _lazy_review,
    ("authorization.k8s.io", "localsubjectaccessreviews"): _lazy_review,
    ("authorization.k8s.io", "selfsubjectaccessreviews"): _lazy_review,
    ("authorization.k8s.io", "selfsubjectrulesreviews"): _lazy_review,
    ("authorization.k8s.io", "subjectaccessreviews"): _lazy_review,
}
"""Handlers of resources that are never stored, by group and name (see `media_types.py` on late
loading)."""


def _loaded(lazy_handler: Lazy[PathHandler]) -> PathHandler:
    async def handle(server: Server, request: Request) -> AnyResponse:
        handler = await server.offloader.load(lazy_handler)
        return await handler(server, request)

    return handle


_lazy_oidc: Lazy[PathHandler] = lazy("kapiserver.apiserver.discovery.oidc:serve_oidc")

PATHS: dict[str, PathHandler] = {
    "": serve_paths,
    "index.html": serve_paths,
    "api": discovery.serve_discovery,
    "apis": discovery.serve_discovery,
    "openapi": _loaded(lazy("kapiserver.apiserver.discovery.openapi:serve_openapi")),
    "version": serve_version,
    "healthz": serve_health,
    "livez": serve_health,
    "readyz": serve_health,
    "debug": _loaded(lazy("kapiserver.apiserver.debugging.debug_pages:serve_debug")),
    "statusz": _loaded(lazy("kapiserver.apiserver.debugging.zpages:serve_statusz")),
    "flagz": _loaded(lazy("kapiserver.apiserver.debugging.zpages:serve_flagz")),
    "configz": _loaded(lazy("kapiserver.apiserver.debugging.zpages:serve_configz")),
    "metrics": _loaded(lazy("kapiserver.apiserver.serving.metrics.exposition:serve_metrics")),
    "openid": _loaded(_lazy_oidc),
    ".well-known": _loaded(_lazy_oidc),
}
"""Handlers of non-resource paths, by the first segment."""


async def _handle_path(server: Server, request: Request) -> AnyResponse:
    if has_empty_step(request.path):
        return _unknown_path(server, request.path)
    first_segment = request.path.strip("/").partition("/")[0]
    handle = PATHS.get(first_segment) or server.paths.get(request.path)
    return await handle(server, request) if handle is not None else page_not_found()


def _unknown_path(server: Server, path: str) -> AnyResponse:
    """Return the response to a path with an empty step. Raises UnknownResource below /api/ and the
    built-in groups, as go-restful has it."""
    prefix, _, rest = path[1:].partition("/")
    group = rest.partition("/")[0]
    groups = {group.name for group in server.scheme.declared_groups if group.name}
    if rest and (prefix == "api" or (prefix == "apis" and group in groups)):
        raise UnknownResource
    return page_not_found()
