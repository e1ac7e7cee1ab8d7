"""API discovery at /api and /apis: one document per level, or all of it aggregated.

Derived from the scheme's groups and resources; loads no type. Mirrors
apiserver/pkg/endpoints/discovery (and its `aggregated`) of k8s.io/apiserver.
"""

from __future__ import annotations

import base64
import hashlib

from kapiserver.api.group import Group, GroupVersion, GroupVersionKind, Resource, Subresource
from kapiserver.api.kind_info import KindInfo
from kapiserver.api.types import Tree
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.discovery.served_groups import (
    ServedGroup,
    remote_discovery,
    served_groups,
)
from kapiserver.apiserver.endpoints.go_restful import check_accept, check_route, produced_types
from kapiserver.apiserver.endpoints.negotiation import (
    UNCONVERTED,
    UNROUTED,
    Endpoint,
    negotiate,
)
from kapiserver.apiserver.endpoints.responses import plain_response
from kapiserver.apiserver.errors import UnknownResource
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse, Response, page_not_found
from kapiserver.codecs.media_types import MediaType
from kapiserver.codecs.negotiation import MediaTypeOptions, negotiate_output

_AGGREGATED = GroupVersionKind("apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList")


async def serve_discovery(server: Server, request: Request) -> AnyResponse:
    """Return the document of a path at `/api` or `/apis`. Raises UnknownResource, MethodNotAllowed,
    NotAcceptable, RouteNotAcceptable, UnsupportedByRoute."""
    prefix, *segments = [part for part in request.path.split("/") if part]
    if not segments:
        return _root(server, request, prefix)
    if prefix == "api":
        if segments != ["v1"]:
            raise UnknownResource
        return _resource_list(server, request, GroupVersion("", segments[0]))
    groups_by_name = {group.name: group for group in served_groups(server) if group.name}
    group = groups_by_name.get(segments[0])
    if group is None:
        return page_not_found()
    if len(segments) == 1:
        tree = {"kind": "APIGroup", "apiVersion": "v1"} | _group(group)
        return _document(server, request, UNROUTED, tree)
    if segments[1] not in group.versions:
        if any(declared.name == group.name for declared in server.scheme.declared_groups):
            raise UnknownResource
        return page_not_found()
    return _resource_list(server, request, GroupVersion(group.name, segments[1]))


def _document(server: Server, request: Request, endpoint: Endpoint, tree: Tree) -> Response:
    if endpoint.by_go_restful:
        check_route(request, produced_types(server.codecs.media_types))
    return plain_response(server, negotiate(server, request, endpoint), tree)


def _resource_list(server: Server, request: Request, version: GroupVersion) -> Response:
    is_custom = any(not info.has_protobuf for info in _kind_infos(server, version))
    endpoint = UNROUTED if is_custom else UNCONVERTED
    return _document(server, request, endpoint, resource_list(server, version))


def _root(server: Server, request: Request, prefix: str) -> Response:
    """Return the document of `/api` or `/apis`: aggregated if the client accepts that."""
    media_types, accept = server.codecs.media_types, request.header("Accept")
    if prefix == "api":  # kube-aggregator serves /apis without a route
        check_route(request, produced_types(media_types))
        check_accept(accept, produced_types(media_types))
    options = negotiate_output(accept, media_types, allows=_allows_aggregated)
    if options.convert is not None:
        return _aggregated(server, request, prefix, options)
    tree = _api_versions(request) if prefix == "api" else group_list(server)
    return _document(server, request, UNROUTED, tree)


def _allows_aggregated(_media: MediaType, convert: GroupVersionKind | None) -> bool:
    return convert in (None, _AGGREGATED)


def _aggregated(
    server: Server, request: Request, prefix: str, options: MediaTypeOptions
) -> Response:
    tree = _group_discovery_list(server, prefix)
    if server.peers is not None and prefix == "apis":
        if ("profile", "nopeer") in options.parameters:
            server.metrics.peers.unmerged_documents += 1
        else:
            tree["items"] = server.peers.with_groups_of_peers(tree["items"])
    body = server.codecs.serializer_for(options.media).encode(tree)
    etag = f'"{hashlib.sha512(body).hexdigest().upper()}"'
    kind = _AGGREGATED
    media_type = f"{options.media.name};g={kind.group};v={kind.version};as={kind.kind}"
    headers = [("Vary", "Accept"), ("ETag", etag), ("Cache-Control", "public")]
    if request.header("If-None-Match") == etag:
        return Response(status=304, media_type=media_type, headers=headers)
    return Response(media_type=media_type, body=body, headers=headers)


def _api_versions(request: Request) -> Tree:
    address = {"clientCIDR": "0.0.0.0/0", "serverAddress": request.header("Host")}
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [address],
    }


def group_list(server: Server) -> Tree:
    """Return the APIGroupList of /apis: all groups but the core group."""
    groups = [_group(group) for group in served_groups(server) if group.name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def _group(group: Group | ServedGroup) -> Tree:
    versions = [
        {"groupVersion": str(version), "version": version.version}
        for version in group.group_versions
    ]
    return {"name": group.name, "versions": versions, "preferredVersion": versions[0]}


def resource_list(server: Server, version: GroupVersion) -> Tree:
    """Return the APIResourceList of one version, subresources included."""
    tree: Tree = {"kind": "APIResourceList"}
    if version.group:  # kube-apiserver leaves it out for the core group
        tree["apiVersion"] = "v1"
    tree["groupVersion"] = str(version)
    tree["resources"] = [
        entry
        for info in _kind_infos(server, version)
        for entry in (
            _resource(info),
            *(
                _subresource(info.resource, subresource)
                for subresource in info.discovery_subresources
            ),
        )
    ]
    return tree


def _kind_infos(server: Server, version: GroupVersion) -> list[KindInfo]:
    scheme = server.scheme
    return [
        scheme.kind_info(version, resource.name)
        for resource in scheme.resources(version.group)
        if version.version in resource.versions
    ]


def _resource(info: KindInfo) -> Tree:
    resource = info.resource
    tree: Tree = {
        "name": resource.name,
        "singularName": resource.singular_name,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(info.discovery_verbs),
    }
    if resource.short_names:
        tree["shortNames"] = list(resource.short_names)
    if resource.categories:
        tree["categories"] = list(resource.categories)
    if resource.stored:
        tree["storageVersionHash"] = storage_version_hash(resource)
    return tree


def _subresource(resource: Resource, subresource: Subresource) -> Tree:
    tree: Tree = {
        "name": f"{resource.name}/{subresource.name}",
        "singularName": "",
        "namespaced": resource.namespaced,
    }
    kind = subresource.kind
    if kind is not None and kind.group != resource.group:
        tree |= {"group": kind.group, "version": kind.version}
    tree["kind"] = kind.kind if kind is not None else resource.kind
    tree["verbs"] = sorted(subresource.verbs)
    return tree


def storage_version_hash(resource: Resource) -> str:
    """Return a hash, in base64, of the group, version and kind in which objects are stored."""
    group = resource.group if resource.stored_in_group is None else resource.stored_in_group
    kind = f"{group}/{resource.storage_version}/{resource.kind}"
    return base64.b64encode(hashlib.sha256(kind.encode()).digest()[:8]).decode()


def _group_discovery_list(server: Server, prefix: str) -> Tree:
    """Return the APIGroupDiscoveryList of `/api` (the core group) or `/apis` (the others)."""
    groups = [group for group in served_groups(server) if bool(group.name) == (prefix == "apis")]
    return {
        "kind": _AGGREGATED.kind,
        "apiVersion": str(_AGGREGATED.group_version),
        "metadata": {},
        "items": [
            {
                "metadata": {"name": group.name} if group.name else {},
                "versions": [
                    _version_discovery(server, group_version)
                    for group_version in group.group_versions
                ],
            }
            for group in groups
        ],
    }


def _version_discovery(server: Server, version: GroupVersion) -> Tree:
    remote = remote_discovery(server.api_services, version)
    if remote is not None:
        return remote
    resources = [_resource_discovery(info) for info in _kind_infos(server, version)]
    return {"version": version.version, "resources": resources, "freshness": "Current"}


def _resource_discovery(info: KindInfo) -> Tree:
    resource = info.resource
    kind = info.group_version.with_kind(resource.kind)
    tree: Tree = {
        "resource": resource.name,
        "responseKind": _response_kind(info, kind),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular_name,
        "verbs": list(info.discovery_verbs),
    }
    if resource.short_names:
        tree["shortNames"] = list(resource.short_names)
    if resource.categories:
        tree["categories"] = list(resource.categories)
    if resource.subresources:
        tree["subresources"] = [
            {
                "subresource": subresource.name,
                "responseKind": _response_kind(info, subresource.kind or kind),
                "verbs": sorted(subresource.verbs),
            }
            for subresource in info.discovery_subresources
        ]
    return tree


def _response_kind(info: KindInfo, kind: GroupVersionKind) -> Tree:
    # Of built-in resources, an empty group and version are those of the document.
    if info.has_protobuf and kind.group_version == info.group_version:
        return {"group": "", "version": "", "kind": kind.kind}
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}
