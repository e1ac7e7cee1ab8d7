"""The OpenAPI documents of a scheme: one v2 document, and a v3 document for each group-version.

Each is built from the declarations at first use, in a thread, and cached until the served resources
change. Knows no request. Mirrors the builders and the caches of kube-openapi.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import orjson

from kapiserver.api.group import GroupVersion, GroupVersionKind, Resource
from kapiserver.api.meta.v1 import WatchEvent
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import Tree, Type
from kapiserver.apiserver.discovery.openapi_messages import encode_v2, encode_v3
from kapiserver.apiserver.discovery.openapi_operations import (
    PATCH,
    ROOTS,
    STRING,
    VERSION_INFO,
    WATCH_EVENT,
    Operation,
    TypeOf,
    operations,
    operations_of_group,
)
from kapiserver.apiserver.discovery.openapi_paths import Ref, paths_v2, paths_v3, share_parameters
from kapiserver.apiserver.discovery.openapi_schemas import (
    PATCH as PATCH_NAME,
)
from kapiserver.apiserver.discovery.openapi_schemas import (
    UNDECLARED,
    Schemas,
    schemas_of,
)
from kapiserver.apiserver.discovery.openapi_schemas import (
    VERSION_INFO as VERSION_INFO_NAME,
)
from kapiserver.apiserver.version import git_version

_BEARER = {
    "description": "A token in the Authorization header.",
    "type": "apiKey",
    "name": "authorization",
    "in": "header",
}
_NAMES = {PATCH: PATCH_NAME, VERSION_INFO: VERSION_INFO_NAME}

Encode: TypeAlias = Callable[[Tree], bytes]


@dataclass(slots=True)
class OpenAPIDocument:
    """A document: its JSON, its ETag, and when it was built (seconds since 1970)."""

    json: bytes
    etag: str
    modified: float
    encode: Encode
    _message: asyncio.Task[bytes] | None = None

    async def protobuf(self) -> bytes:
        """Return the document as a gnostic message, encoded once in a thread. If a caller is
        cancelled, others still get the result."""
        if self._message is None:
            encoding = asyncio.to_thread(lambda: self.encode(orjson.loads(self.json)))
            self._message = asyncio.ensure_future(encoding)
        return await asyncio.shield(self._message)


@dataclass(frozen=True, slots=True)
class _Source:
    """The source of one v3 document.

    version_key changes when the content of the document does
    type_of     returns the types of the kinds served now, even if a custom kind is removed later
    etag        of a document of custom kinds only, known without building it, so that the index
                of many custom groups builds no document; "" for other documents
    """

    version_key: Hashable
    operations: Callable[[], Iterable[Operation]]
    type_of: TypeOf
    etag: str = ""


@dataclass(slots=True)
class _CachedDocument:
    """A document, built or being built, and the version key of its source."""

    version_key: Hashable
    document: asyncio.Task[OpenAPIDocument]

    async def wait(self) -> OpenAPIDocument:
        """Return the document when it is built. If a caller is cancelled, others still get it."""
        return await asyncio.shield(self.document)


class OpenAPIDocuments:
    """The documents of one scheme, without the media types of `excluded_types`.

    version     of the server, as in /version
    """

    def __init__(
        self,
        scheme: Scheme,
        now: Callable[[], float],
        *,
        version: str = git_version(),
        excluded_types: Collection[str] = (),
    ) -> None:
        self._scheme = scheme
        self._now = now
        self._info = {"title": "Kubernetes", "version": version}
        self._excluded_types = frozenset(excluded_types)
        self._cache: dict[str, _CachedDocument] = {}
        self._index: tuple[Hashable, OpenAPIDocument] | None = None

    async def v2(self) -> OpenAPIDocument:
        """Return the v2 document, of all group-versions."""
        sources = tuple(self._sources().values())
        version_key = tuple(source.version_key for source in sources)
        return await self._cached(
            "v2", version_key, functools.partial(self._make_v2, sources)
        ).wait()

    async def v3(self, path: str) -> OpenAPIDocument | None:
        """Return the v3 document of one path of the index, or None."""
        source = self._sources().get(path)
        return None if source is None else await self._v3(path, source).wait()

    async def index(self) -> OpenAPIDocument:
        """Return the index of the v3 documents; their URLs contain their hashes."""
        sources = self._sources()
        version_key = tuple((path, source.version_key) for path, source in sources.items())
        if self._index is None or self._index[0] != version_key:
            for removed_path in self._cache.keys() - sources.keys() - {"v2"}:
                del self._cache[removed_path]
            paths = {}
            for path, source in sources.items():
                etag = source.etag or (await self._v3(path, source).wait()).etag
                url = f"/openapi/v3/{path}?hash={etag}"
                paths[path] = {"serverRelativeURL": url}
            self._index = (version_key, self._document({"paths": paths}, encode_v3))
        return self._index[1]

    def _v3(self, path: str, source: _Source) -> _CachedDocument:
        return self._cached(path, source.version_key, functools.partial(self._make_v3, source))

    def _cached(
        self, path: str, version_key: Hashable, make: Callable[[], OpenAPIDocument]
    ) -> _CachedDocument:
        cached_document = self._cache.get(path)
        if (
            cached_document is None
            or cached_document.version_key != version_key
            or _failed(cached_document.document)
        ):
            task = asyncio.ensure_future(asyncio.to_thread(make))
            cached_document = self._cache[path] = _CachedDocument(version_key, task)
        return cached_document

    def _sources(self) -> dict[str, _Source]:
        """Return the sources by path below /openapi/v3, sorted."""
        type_of = _types_of(self._scheme)
        sources = {
            operation.path.strip("/"): _Source("", functools.partial(_single, operation), type_of)
            for operation in ROOTS
        }
        for group in self._scheme.groups:
            if group.name:
                of_group = functools.partial(operations_of_group, group)
                sources[f"apis/{group.name}"] = _Source(group.versions, of_group, type_of)
            for version in group.group_versions:
                path = f"apis/{version}" if version.group else f"api/{version}"
                resources = _resources(self._scheme, version)
                sources[path] = _Source(
                    tuple(resources),
                    functools.partial(operations, type_of, version, resources),
                    type_of,
                    _hash_of(resources, self._info["version"]),
                )
        return dict(sorted(sources.items()))

    def _make_v3(self, source: _Source) -> OpenAPIDocument:
        all_operations = [self._with_served_types(operation) for operation in source.operations()]
        schemas = schemas_of(self._scheme, "v3")
        tree = {
            "openapi": "3.0.0",
            "info": self._info,
            "paths": paths_v3(all_operations, _ref(source.type_of, schemas)),
            "components": {
                "schemas": _definitions(source.type_of, schemas, all_operations),
                "securitySchemes": {"BearerToken": _BEARER},
            },
        }
        document = self._document(tree, encode_v3)
        return replace(document, etag=source.etag) if source.etag else document

    def _make_v2(self, sources: Sequence[_Source]) -> OpenAPIDocument:
        type_of = sources[0].type_of
        all_operations = [
            self._with_served_types(operation)
            for source in sources
            for operation in source.operations()
        ]
        schemas = schemas_of(self._scheme, "v2")
        paths = paths_v2(all_operations, _ref(type_of, schemas))
        parameters = share_parameters(paths)
        tree = {
            "swagger": "2.0",
            "info": self._info,
            "paths": paths,
            "definitions": _definitions(type_of, schemas, all_operations),
            "parameters": parameters,
            "securityDefinitions": {"BearerToken": _BEARER},
            "security": [{"BearerToken": []}],
        }
        return self._document(tree, encode_v2)

    def _with_served_types(self, operation: Operation) -> Operation:
        """Return the operation without the excluded media types."""
        if not self._excluded_types:
            return operation
        return replace(
            operation,
            consumes=tuple(name for name in operation.consumes if name not in self._excluded_types),
            produces=tuple(name for name in operation.produces if name not in self._excluded_types),
        )

    def _document(self, tree: Tree, encode: Encode) -> OpenAPIDocument:
        body = orjson.dumps(tree)
        return OpenAPIDocument(body, hashlib.sha512(body).hexdigest().upper(), self._now(), encode)


def _hash_of(resources: Iterable[Resource], server_version: str) -> str:
    """Return the hash of a document of custom kinds only; "" if there are other kinds."""
    spec_generations = [(resource.spec_generation, repr(resource)) for resource in resources]
    if not spec_generations or not all(spec_generation for spec_generation, _ in spec_generations):
        return ""
    return hashlib.sha512(f"{server_version} {spec_generations}".encode()).hexdigest().upper()


def _failed(task: asyncio.Task[OpenAPIDocument]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


def _single(operation: Operation) -> tuple[Operation]:
    return (operation,)


def _resources(scheme: Scheme, version: GroupVersion) -> list[Resource]:
    resources = scheme.resources(version.group)
    return [resource for resource in resources if version.version in resource.versions]


def _ref(type_of: TypeOf, schemas: Schemas) -> Ref:
    @functools.cache
    def ref(kind: GroupVersionKind) -> Tree:
        if kind == STRING:
            return {"type": "string"}
        name = _NAMES.get(kind)
        return schemas.reference(name) if name else schemas.ref(type_of(kind))

    return ref


def _definitions(type_of: TypeOf, schemas: Schemas, all_operations: Iterable[Operation]) -> Tree:
    """Return the schemas of all request and response bodies, sorted by name."""
    kinds = {
        kind
        for operation in all_operations
        for kind in (operation.body, operation.response)
        if kind is not None
    }
    undeclared = {_NAMES[kind]: UNDECLARED[_NAMES[kind]] for kind in kinds if kind in _NAMES}
    roots: list[type[Type]] = [
        type_of(kind) for kind in sorted(kinds) if kind not in _NAMES and kind != STRING
    ]
    return dict(sorted((schemas.collect(roots) | undeclared).items()))


def _types_of(scheme: Scheme) -> TypeOf:
    """Return the mapping of kinds to types, with the custom kinds served at this moment."""
    registered_type = scheme.type_lookup()

    def type_of(kind: GroupVersionKind) -> type[Type]:
        return WatchEvent if kind == WATCH_EVENT else registered_type(kind)

    return type_of
