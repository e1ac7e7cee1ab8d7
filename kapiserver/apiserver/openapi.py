"""OpenAPI: an index and a document a group-version (v3), and one document of all (v2).

Made from the declarations at first use and kept as bytes. kubectl validates and explains with
them. Mirrors kube-openapi's handlers.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
from dataclasses import dataclass

import orjson

from kapiserver.api.group import GroupVersion, GroupVersionKind, Resource
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import Tree, Type
from kapiserver.apiserver.answers import clauses
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.errors import MethodNotAllowed
from kapiserver.apiserver.openapi_paths import operations, paths_v2, paths_v3
from kapiserver.apiserver.openapi_schemas import Dialect, Schemas
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.respond import Answer, Response, page_not_found
from kapiserver.apiserver.version import GIT_VERSION

_META = "meta.k8s.io"
_OPTIONS = ("DeleteOptions", "Status")
_JSON = ("application/json", "application/*", "*/*")


@dataclass(frozen=True, slots=True)
class Document:
    """A document's bytes and their hash."""

    body: bytes
    etag: str


async def answer(server: Server, request: Request) -> Answer:
    """Answer for a path below `/openapi`. Raises MethodNotAllowed."""
    if request.method not in ("GET", "HEAD"):
        raise MethodNotAllowed
    parts = tuple(part for part in request.path.split("/") if part)[1:]
    wanted = [clause.name for clause in clauses(request) if clause.quality > 0]
    if request.header("Accept") and not any(name in _JSON for name in wanted):
        return Response(status=406, media_type="text/plain; charset=utf-8")
    scheme = server.scheme
    if parts == ("v2",):
        return _document(request, document_v2(scheme))
    if parts == ("v3",):
        return Response(body=orjson.dumps(await index_v3(scheme)))
    if parts[:1] != ("v3",):
        return page_not_found()
    version = _versions(scheme).get("/".join(parts[1:]))
    return _document(request, document_v3(scheme, version)) if version else page_not_found()


def _document(request: Request, document: Document) -> Response:
    headers = [("ETag", f'"{document.etag}"'), ("Vary", "Accept")]
    if request.parameter("hash") == document.etag:  # the URL names its content
        headers.append(("Cache-Control", "public, max-age=31536000, immutable"))
    if request.header("If-None-Match") == f'"{document.etag}"':
        return Response(status=304, headers=headers)
    return Response(body=document.body, headers=headers)


def _versions(scheme: Scheme) -> dict[str, GroupVersion]:
    """Path below /openapi/v3 -> group-version."""
    found = [version for group in scheme.groups for version in group.group_versions]
    return {f"apis/{one}" if one.group else f"api/{one}": one for one in found}


async def index_v3(scheme: Scheme) -> Tree:
    """All v3 documents and where they are, their hashes in the URLs."""
    paths = {}
    for path, version in _versions(scheme).items():
        await asyncio.sleep(0)  # each document takes a while, the first time
        url = f"/openapi/v3/{path}?hash={document_v3(scheme, version).etag}"
        paths[path] = {"serverRelativeURL": url}
    return {"paths": paths}


@functools.lru_cache(maxsize=256)
def document_v3(scheme: Scheme, version: GroupVersion) -> Document:
    """One group-version's document."""
    found = list(operations(version, _resources(scheme, version)))
    schemas, roots = _schemas(scheme, [version], "v3")

    def ref(kind: GroupVersionKind) -> Tree:
        return _ref(scheme, schemas, kind)

    tree = {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": GIT_VERSION},
        "paths": dict(sorted(paths_v3(found, ref).items())),
        "components": {
            "schemas": schemas.collect(roots) | _PATCH,
            "securitySchemes": {"BearerToken": _BEARER},
        },
        "security": [{"BearerToken": []}],
    }
    return _made(tree)


@functools.lru_cache(maxsize=4)
def document_v2(scheme: Scheme) -> Document:
    """The document of all group-versions."""
    versions = [version for group in scheme.groups for version in group.group_versions]
    schemas, roots = _schemas(scheme, versions, "v2")

    def ref(kind: GroupVersionKind) -> Tree:
        return _ref(scheme, schemas, kind)

    paths: Tree = {}
    for version in versions:
        found = list(operations(version, _resources(scheme, version)))
        paths |= paths_v2(found, ref)
    tree = {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": GIT_VERSION},
        "paths": dict(sorted(paths.items())),
        "definitions": schemas.collect(roots) | _PATCH,
        "securityDefinitions": {"BearerToken": _BEARER},
        "security": [{"BearerToken": []}],
    }
    return _made(tree)


_PATCH_NAME = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch"
_PATCH = {
    _PATCH_NAME: {
        "description": "A change to an object, in the form that the Content-Type says.",
        "type": "object",
    }
}
_BEARER = {
    "description": "Bearer token",
    "type": "apiKey",
    "name": "authorization",
    "in": "header",
}


def _made(tree: Tree) -> Document:
    body = orjson.dumps(tree)
    return Document(body, hashlib.sha512(body).hexdigest().upper())


def _resources(scheme: Scheme, version: GroupVersion) -> list[Resource]:
    found = scheme.resources(version.group)
    return [resource for resource in found if version.version in resource.versions]


def _schemas(
    scheme: Scheme, versions: list[GroupVersion], dialect: Dialect
) -> tuple[Schemas, list[type[Type]]]:
    names: dict[type[Type], tuple[GroupVersionKind, ...]] = {}
    for version in versions:
        for resource in _resources(scheme, version):
            kind = version.with_kind(resource.kind)
            lists = [kind._replace(kind=f"{kind.kind}List")] if "list" in resource.verbs else []
            below = [one.kind for one in resource.subresources if one.kind is not None]
            for one in (kind, *lists, *below):
                names.setdefault(scheme.type_of(one), (one,))
    every = [version for group in scheme.groups for version in group.group_versions]
    for name in _OPTIONS:
        type_ = scheme.type_of(GroupVersionKind(_META, "v1", name))
        used = every if name == "DeleteOptions" else [GroupVersion("", "v1")]
        names[type_] = tuple(version.with_kind(name) for version in used)
    return Schemas(dialect=dialect, kinds=names), list(names)


def _ref(scheme: Scheme, schemas: Schemas, kind: GroupVersionKind) -> Tree:
    if kind == GroupVersionKind(_META, "v1", "Patch"):
        prefix = "#/components/schemas/" if schemas.dialect == "v3" else "#/definitions/"
        return {"$ref": prefix + _PATCH_NAME}
    return schemas.ref(scheme.type_of(kind))
