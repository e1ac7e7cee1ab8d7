"""The OpenAPI documents of a scheme: one v2 document, and a v3 document for each group-version.

Each is built from the declarations at first use, in a thread, and cached until the served resources
change. The v2 document, which has all kinds, is built again soon after such a change, because that
takes some tenths of a second. The index needs no document: an ETag is a hash of what the document
is built from. Knows no request. Mirrors the builders and the caches of kube-openapi.
"""

from __future__ import annotations

import asyncio
import copy
import functools
import hashlib
import os
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import orjson
from msgspec import Struct
from msgspec.structs import replace

import kapiserver
from kapiserver.api.custom_kinds import CustomKinds
from kapiserver.api.group import CORE, GroupVersion, GroupVersionKind, Resource
from kapiserver.api.meta.v1 import WatchEvent
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import Tree, Type
from kapiserver.apiserver.discovery.openapi_messages import encode_v2, encode_v3
from kapiserver.apiserver.discovery.openapi_operations import (
    ROOTS,
    WATCH_EVENT,
    Operation,
    TypeOf,
    operations_of_group,
    operations_of_resource,
    operations_of_version,
)
from kapiserver.apiserver.discovery.openapi_paths import BEARER, paths_v3
from kapiserver.apiserver.discovery.openapi_schemas import (
    all_versions,
    references_to,
    schemas_of,
    types_of,
    undeclared_of,
)
from kapiserver.apiserver.discovery.openapi_v2 import Parts, V2Builder
from kapiserver.apiserver.version import git_version
from kapiserver.storage.concurrency.clock import Clock, Timer
from kapiserver.storage.concurrency.subscriptions import Subscription

Encode: TypeAlias = Callable[[Tree], bytes]
SubscribeToDefinitions: TypeAlias = Callable[[Callable[[Sequence[str]], None]], Subscription]
"""Subscribes a function to changes of definitions; it gets their names."""

PAUSE_SECONDS = 0.2
"""How long after a change of definitions the v2 document is built in advance."""
USED_SECONDS = 600.0
"""How long the v2 document is built in advance after a client has asked for it."""


class OpenAPIDocument(Struct):
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


class _Source(Struct, frozen=True):
    """The source of one v3 document.

    etag        changes when the content of the document does; known without building it
    is_shared   whether the etag says which document it is, whatever the scheme: that of a group
                without custom kinds
    parts       its operations
    type_of     returns the types of the kinds served now, even if a custom kind is removed later
    version     the version that the document is about; that of the core group for others
    """

    etag: str
    is_shared: bool
    parts: Parts
    type_of: TypeOf
    version: GroupVersion


class _Index(Struct, frozen=True):
    """The sources of all v3 documents by their path below /openapi/v3, and the index document."""

    sources: Mapping[str, _Source]
    document: OpenAPIDocument


class _CachedDocument(Struct):
    """A document, built or being built, and its ETag."""

    etag: str
    document: asyncio.Task[OpenAPIDocument]


class OpenAPIDocuments:
    """The documents of one scheme, without the media types of `excluded_types`.

    version     the version of the server, as in /version
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
        self._v2_builder = V2Builder(self._info)
        self._excluded_types = frozenset(excluded_types)
        self._cache: dict[str, _CachedDocument] = {}
        self._custom: CustomKinds | None = None
        self._index: asyncio.Task[_Index] | None = None
        self._subscription: Subscription | None = None
        self._v2_used_at = float("-inf")
        self._timer: Timer | None = None
        self._preparation: asyncio.Task[OpenAPIDocument] | None = None

    def prepare_v2_after(self, subscribe: SubscribeToDefinitions, clock: Clock) -> None:
        """Build the v2 document also when definitions have changed, not only when a client waits
        for it: PAUSE_SECONDS after a change, if a client has asked for it recently. Idempotent."""
        if self._subscription is not None:
            return

        def prepare() -> None:
            self._timer = None
            if self._now() - self._v2_used_at < USED_SECONDS:
                self._preparation = asyncio.ensure_future(self._make_current_v2())
            else:
                self._v2_builder.clear()

        def on_changed(_names: Sequence[str]) -> None:
            if self._timer is None:
                self._timer = clock.call_later(PAUSE_SECONDS, prepare)

        self._subscription = subscribe(on_changed)

    async def v2(self) -> OpenAPIDocument:
        """Return the v2 document, of all group-versions."""
        self._v2_used_at = self._now()
        return await self._make_current_v2()

    async def _make_current_v2(self) -> OpenAPIDocument:
        index = await self._current()
        sources = tuple(index.sources.values())
        make = functools.partial(self._make_v2, sources)
        is_shared = all(source.is_shared for source in sources)
        return await self._document("v2", index.document.etag, make, is_shared=is_shared)

    async def v3(self, path: str) -> OpenAPIDocument | None:
        """Return the v3 document of one path of the index, or None."""
        source = (await self._current()).sources.get(path)
        if source is None:
            return None
        make = functools.partial(self._make_v3, source)
        return await self._document(path, source.etag, make, is_shared=source.is_shared)

    async def index(self) -> OpenAPIDocument:
        """Return the index of the v3 documents; their URLs contain their hashes."""
        return (await self._current()).document

    async def _current(self) -> _Index:
        """Return the index of the kinds that are served now, made again if custom kinds changed."""
        custom = self._scheme.custom
        if self._index is None or self._custom is not custom or _has_failed(self._index):
            snapshot = copy.copy(self._scheme)  # its custom kinds stay while a thread reads them
            making = asyncio.to_thread(self._make_index, snapshot)
            self._custom, self._index = custom, asyncio.ensure_future(making)
        index = await asyncio.shield(self._index)
        for removed_path in self._cache.keys() - index.sources.keys() - {"v2"}:
            del self._cache[removed_path]
        return index

    async def _document(
        self, path: str, etag: str, make: Callable[[], OpenAPIDocument], *, is_shared: bool
    ) -> OpenAPIDocument:
        """Return the document of a path, built once in a thread; one that is shared, once for all
        clusters of the event loop. If a caller is cancelled, others still get it."""
        cached = self._cache.get(path)
        if cached is None or cached.etag != etag or _has_failed(cached.document):
            build = functools.partial(_build, etag, make)
            cached = _shared_document(path, etag, build) if is_shared else build()
            self._cache[path] = cached
        return await asyncio.shield(cached.document)

    def _make_index(self, scheme: Scheme) -> _Index:
        sources = self._sources(scheme)
        paths = {
            path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={source.etag}"}
            for path, source in sources.items()
        }
        return _Index(sources, self._new_document({"paths": paths}, encode_v3))

    def _sources(self, scheme: Scheme) -> dict[str, _Source]:
        """Return the sources by path below /openapi/v3, sorted."""
        type_of = _types_of(scheme)
        code = f"{_source_hash()} {self._info} {sorted(self._excluded_types)}"
        sources: dict[str, _Source] = {}

        def add(
            path: str,
            content: object,
            parts: Parts,
            *,
            is_shared: bool = True,
            version: GroupVersion = CORE,
        ) -> None:
            etag = hashlib.sha512(f"{code} {path} {content}".encode()).hexdigest().upper()
            sources[path] = _Source(etag, is_shared, parts, type_of, version)

        for operation in ROOTS:
            add(operation.path.strip("/"), "", {operation: functools.partial(_single, operation)})
        for group in scheme.groups:
            if group.name:
                part = functools.partial(operations_of_group, group)
                add(f"apis/{group.name}", group.versions, {group.name: part})
            for version in group.group_versions:
                path = f"apis/{version}" if version.group else f"api/{version}"
                resources = _resources(scheme, version)
                add(
                    path,
                    resources,
                    _parts(type_of, version, resources),
                    is_shared=not any(resource.definition for resource in resources),
                    version=version,
                )
        return dict(sorted(sources.items()))

    def _make_v3(self, source: _Source) -> OpenAPIDocument:
        operations = [
            operation for part in source.parts.values() for operation in self._served(part)
        ]
        type_of = source.type_of
        schemas = schemas_of(self._scheme, "v3", sorted({CORE, source.version}))
        kinds = {kind for operation in operations for kind in operation.kinds}
        definitions = schemas.collect(types_of(kinds, type_of)) | undeclared_of(kinds)
        tree = {
            "openapi": "3.0.0",
            "info": self._info,
            "paths": paths_v3(operations, references_to(type_of, schemas)),
            "components": {
                "schemas": dict(sorted(definitions.items())),
                "securitySchemes": {"BearerToken": BEARER},
            },
        }
        return self._new_document(tree, encode_v3, source.etag)

    def _make_v2(self, sources: Sequence[_Source]) -> OpenAPIDocument:
        parts = {
            key: functools.partial(self._served, part)
            for source in sources
            for key, part in source.parts.items()
        }
        schemas = schemas_of(self._scheme, "v2", all_versions(self._scheme))
        tree = self._v2_builder.build(parts, sources[0].type_of, schemas)
        return self._new_document(tree, encode_v2)

    def _served(self, part: Callable[[], Iterable[Operation]]) -> list[Operation]:
        """Return the operations of a part without the excluded media types."""
        return [self._with_served_types(operation) for operation in part()]

    def _with_served_types(self, operation: Operation) -> Operation:
        """Return the operation without the excluded media types."""
        if not self._excluded_types:
            return operation
        return replace(
            operation,
            consumes=tuple(name for name in operation.consumes if name not in self._excluded_types),
            produces=tuple(name for name in operation.produces if name not in self._excluded_types),
        )

    def _new_document(self, tree: Tree, encode: Encode, etag: str = "") -> OpenAPIDocument:
        body = orjson.dumps(tree)
        etag = etag or hashlib.sha512(body).hexdigest().upper()
        return OpenAPIDocument(body, etag, self._now(), encode)


@functools.cache
def _source_hash() -> str:
    """Return a hash of the package's source, on which the content of each document depends."""
    package = Path(kapiserver.__file__).parent
    digest = hashlib.sha512(kapiserver.__version__.encode())
    for folder, _, names in sorted(os.walk(package)):
        for name in sorted(names):
            if name.endswith(".py"):
                digest.update(Path(folder, name).read_bytes())
    return digest.hexdigest()


_MAX_SHARED = 128
"""Documents of an event loop that clusters share; those that were used first are dropped."""
_SHARED: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str, str], _CachedDocument]] = (
    WeakKeyDictionary()
)
"""The shared documents of each event loop, by path and ETag."""


def _build(etag: str, make: Callable[[], OpenAPIDocument]) -> _CachedDocument:
    return _CachedDocument(etag, asyncio.ensure_future(asyncio.to_thread(make)))


def _shared_document(path: str, etag: str, build: Callable[[], _CachedDocument]) -> _CachedDocument:
    documents = _SHARED.setdefault(asyncio.get_running_loop(), {})
    cached = documents.get((path, etag))
    if cached is None or _has_failed(cached.document):
        cached = documents[path, etag] = build()
        if len(documents) > _MAX_SHARED:
            del documents[next(iter(documents))]
    return cached


def _has_failed(task: asyncio.Task[Any]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


def _single(operation: Operation) -> tuple[Operation]:
    return (operation,)


def _resources(scheme: Scheme, version: GroupVersion) -> list[Resource]:
    resources = scheme.resources(version.group)
    return [resource for resource in resources if version.version in resource.versions]


def _parts(type_of: TypeOf, version: GroupVersion, resources: Iterable[Resource]) -> Parts:
    """Return the operations of a group-version."""
    parts: dict[Hashable, Callable[[], Iterable[Operation]]] = {
        version: functools.partial(operations_of_version, type_of, version)
    }
    for resource in resources:
        part = functools.partial(operations_of_resource, type_of, version, resource)
        parts[version, resource] = part
    return parts


def _types_of(scheme: Scheme) -> TypeOf:
    """Return the mapping of kinds to types, with the custom kinds served at this moment."""
    registered_type = scheme.type_lookup()

    def type_of(kind: GroupVersionKind) -> type[Type]:
        return WatchEvent if kind == WATCH_EVENT else registered_type(kind)

    return type_of
