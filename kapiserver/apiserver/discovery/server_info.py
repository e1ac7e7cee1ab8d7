"""Serves /version, the health paths, and the list of paths at /."""

from __future__ import annotations

import orjson

from kapiserver.api.types import Tree
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.discovery.served_groups import served_groups
from kapiserver.apiserver.endpoints.go_restful import check_accept, check_route
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse, Response, page_not_found
from kapiserver.apiserver.version import version_info, versions_of

_JSON = ("application/json",)


def indented_json(tree: Tree) -> Response:
    """Return a response with JSON indented by two spaces, as kube-apiserver does for documents that
    are not API objects."""
    return Response(body=orjson.dumps(tree, option=orjson.OPT_INDENT_2))


async def serve_version(server: Server, request: Request) -> AnyResponse:
    """Return the version of the server. Raises MethodNotAllowed, UnsupportedByRoute,
    RouteNotAcceptable."""
    if request.path.strip("/") != "version":
        return page_not_found()
    check_route(request, _JSON)
    check_accept(request.header("Accept"), _JSON)
    features = server.config.features
    versions = versions_of(features.emulated_version, features.min_compatibility_version)
    return indented_json(version_info(versions))


async def serve_health(server: Server, request: Request) -> AnyResponse:
    """Return the results of the health checks."""
    if request.path.endswith("/"):
        return page_not_found()
    parts = [part for part in request.path.split("/") if part]
    return await server.health.respond(parts, request.query)


async def serve_paths(server: Server, request: Request) -> AnyResponse:
    """Return the list of all non-resource paths."""
    if request.path not in ("/", "/index.html"):
        return page_not_found()
    return indented_json({"paths": sorted(listed_paths(server))})


def listed_paths(server: Server) -> set[str]:
    """Return all non-resource paths but those that kube-apiserver does not list."""
    paths = {"/api", "/apis", "/configz", "/openapi/v2", "/openapi/v3", "/version"}
    paths |= {"/metrics", "/metrics/slis"}
    gates = server.config.features.feature_gates
    paths |= {f"/{page}z" for page in ("flag", "status") if f"Component{page.title()}z" in gates}
    for path in ("healthz", "livez", "readyz"):
        paths |= {f"/{path}", *(f"/{path}/{name}" for name in server.health.checks(path))}
    for group in served_groups(server):
        root = "/apis/" + group.name if group.name else "/api"
        paths |= {root, *(f"{root}/{version}" for version in group.versions)}
        if group.name:
            paths |= {f"/openapi/v3{root}/{version}" for version in group.versions}
    return paths
