"""The documents of extension API servers: their resources and their OpenAPI.

Mirrors handler_discovery.go and the downloaders of pkg/controllers/openapi and openapiv3 of
k8s.io/kube-aggregator.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson
from msgspec import Struct

from kapiserver.api.group import GroupVersion
from kapiserver.api.types import Tree
from kapiserver.apiserver.aggregation.api_services import APIService, OpenAPISource
from kapiserver.apiserver.aggregation.back_ends import (
    AGGREGATOR,
    OPENAPI_AGGREGATOR,
    BackEnds,
    BadTransport,
    user_headers,
)
from kapiserver.apiserver.aggregation.service_resolver import Unresolved
from kapiserver.apiserver.aggregation.spec_merge import filtered_spec
from kapiserver.apiserver.user import User

DISCOVERY_SECONDS = 5.0
OPENAPI_SECONDS = 60.0
MAX_BYTES = 64 << 20
"""The largest document; that of kube-apiserver has about 4 MB."""
MAX_DEPTH = 200
"""Levels of a v2 document; that of kube-apiserver has 13."""

_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_EMPTY_KIND = {"group": "", "version": "", "kind": ""}


class FetchFailed(Exception):
    """A document cannot be fetched now."""


class Fetched(NamedTuple):
    """A response: its status, media type, ETag and body."""

    status: int
    media_type: str
    etag: str
    body: bytes


class Discovery(Struct, frozen=True):
    """The group-versions of an extension API server with their resources, and the ETag of the
    document that they are from."""

    versions: Mapping[GroupVersion, Tree]
    etag: str = ""


async def fetch_discovery(
    back_ends: BackEnds, api_service: APIService, last: Discovery | None
) -> Discovery:
    """Return the group-versions of an extension API server, from aggregated discovery if it has
    that, else that of the APIService alone. `last` is what an earlier call returned. Raises
    FetchFailed."""
    etag = last.etag if last is not None else ""
    fetched = await _fetch(back_ends, api_service, "/apis", _AGGREGATED, AGGREGATOR, etag)
    if fetched.status == 304 and last is not None:
        return last
    if fetched.status == 503:
        raise FetchFailed(f"response code: {fetched.status}")
    if fetched.status == 200 and "as=APIGroupDiscoveryList" in fetched.media_type:
        return Discovery(_versions(_parsed(fetched.body)), fetched.etag)
    path = api_service.path
    fetched = await _fetch(back_ends, api_service, path, "application/json", AGGREGATOR)
    if fetched.status != 200:
        raise FetchFailed(f"failed to download legacy discovery for {path}: {fetched.status}")
    resources = version_resources(_parsed(fetched.body))
    entry = {"version": api_service.version.version, "resources": resources}
    return Discovery({api_service.version: entry})


def _versions(groups: Tree) -> dict[GroupVersion, Tree]:
    """Return the versions of an APIGroupDiscoveryList. Raises FetchFailed."""
    try:
        versions = {
            GroupVersion(group["metadata"].get("name") or "", version["version"]): version
            for group in groups.get("items") or ()
            for version in group.get("versions") or ()
        }
        for version in versions.values():
            for resource in version.get("resources") or ():
                for entry in (resource, *(resource.get("subresources") or ())):
                    if entry.get("responseKind") is None:  # old clients rely on it
                        entry["responseKind"] = _EMPTY_KIND
        return versions
    except (KeyError, TypeError, AttributeError):
        raise FetchFailed("malformed discovery") from None


def version_resources(listed: Tree) -> list[Tree]:
    """Return the resources of an APIResourceList as aggregated discovery has them. Raises
    FetchFailed."""
    try:
        members = list(listed.get("resources") or ())
        resources = {
            member["name"]: _resource(member) for member in members if "/" not in member["name"]
        }
        for member in members:
            name, slash, subresource = member["name"].partition("/")
            if slash:
                parent = resources.setdefault(name, _unlisted(name, member))
                entry = {
                    "subresource": subresource,
                    "responseKind": _response_kind(member) if member.get("kind") else _EMPTY_KIND,
                    "verbs": member.get("verbs") or [],
                }
                parent.setdefault("subresources", []).append(entry)
    except (KeyError, TypeError, AttributeError):
        raise FetchFailed("malformed discovery") from None
    return list(resources.values())


def _resource(listed: Tree) -> Tree:
    return {
        "resource": listed["name"],
        "responseKind": _response_kind(listed),
        "scope": _scope(listed),
        "singularResource": listed.get("singularName") or "",
        "verbs": listed.get("verbs") or [],
        **{key: listed[key] for key in ("shortNames", "categories") if listed.get(key)},
    }


def _response_kind(listed: Tree) -> Tree:
    """Return the kind of a resource. As in Kubernetes, an empty group or version is that of the
    document."""
    return {key: listed.get(key) or "" for key in ("group", "version", "kind")}


def _unlisted(name: str, subresource: Tree) -> Tree:
    """Return a resource that has only subresources."""
    return {
        "resource": name,
        "responseKind": _EMPTY_KIND,
        "scope": _scope(subresource),
        "singularResource": "",
        "verbs": [],
    }


def _scope(resource: Tree) -> str:
    return "Namespaced" if resource.get("namespaced") else "Cluster"


async def fetch_openapi(
    back_ends: BackEnds, api_service: APIService, last: OpenAPISource
) -> OpenAPISource:
    """Return where the OpenAPI v3 document of an APIService is, and its part of the v2 document.
    `last` is what an earlier call returned. Raises FetchFailed."""
    group, version = api_service.version
    path = f"apis/{group}/{version}"
    index = await _fetch(
        back_ends, api_service, "/openapi/v3", "application/json", OPENAPI_AGGREGATOR
    )
    paths = _parsed(index.body).get("paths") if index.status == 200 else None
    item = paths.get(path) if isinstance(paths, dict) else None
    url = item.get("serverRelativeURL") if isinstance(item, dict) else None
    url = url if isinstance(url, str) and url.partition("?")[0] == f"/openapi/v3/{path}" else ""
    fetched = await _fetch(
        back_ends, api_service, "/openapi/v2", "application/json", OPENAPI_AGGREGATOR, last.etag
    )
    if fetched.status == 304:
        return OpenAPISource(v3_url=url, v2=last.v2, etag=last.etag)
    if fetched.status != 200:
        return OpenAPISource(v3_url=url)
    spec = await asyncio.to_thread(_part_of_spec, fetched.body, f"/{path}/")
    etag = fetched.etag or hashlib.sha512(fetched.body).hexdigest()
    return OpenAPISource(v3_url=url, v2=spec, etag=etag)


def _part_of_spec(body: bytes, prefix: str) -> Tree:
    """Return a part of an OpenAPI v2 document. Raises FetchFailed."""
    spec = _parsed(body)
    if _is_deeper(spec, MAX_DEPTH):
        raise FetchFailed("the OpenAPI document is too deep")
    try:
        return filtered_spec(spec, prefix)
    except (KeyError, TypeError, AttributeError):
        raise FetchFailed("malformed OpenAPI document") from None


def _is_deeper(value: Any, depth: int) -> bool:
    """Report whether a JSON value has more levels than that."""
    level = [value]
    for _ in range(depth):
        children: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                children += item.values()
            elif isinstance(item, list):
                children += item
        level = children
    return bool(level)


async def _fetch(
    back_ends: BackEnds,
    api_service: APIService,
    path: str,
    accept: str,
    user: User,
    etag: str = "",
) -> Fetched:
    """Fetch a document. Raises FetchFailed."""
    headers = [*user_headers(user), ("Accept", accept)]
    if etag:
        headers.append(("If-None-Match", etag))
    limit = DISCOVERY_SECONDS if user is AGGREGATOR else OPENAPI_SECONDS
    try:
        async with asyncio.timeout(limit):
            back_end = await back_ends.locate(api_service)
            response = await back_ends.send(back_end, "GET", path, headers)
            try:
                response_headers = {name.lower(): value for name, value in response.headers}
                body = bytearray()
                async for piece in response.pieces():
                    body += piece
                    if len(body) > MAX_BYTES:
                        raise FetchFailed(f"{path} is larger than {MAX_BYTES} bytes")
            finally:
                response.close()
    except (OSError, ValueError, Unresolved, BadTransport) as error:
        raise FetchFailed(f"{path}: {error or type(error).__name__}") from None
    media_type = response_headers.get("content-type", "")
    return Fetched(response.status, media_type, response_headers.get("etag", ""), bytes(body))


def _parsed(body: bytes) -> Any:
    """Return a JSON object. Raises FetchFailed."""
    try:
        value = orjson.loads(body)
    except ValueError:
        raise FetchFailed("the document is no JSON") from None
    if not isinstance(value, dict):
        raise FetchFailed("the document is no JSON object")
    return value
