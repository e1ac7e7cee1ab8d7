"""OpenAPI documents of a scheme: a v3 document for each path of its index, one v2 document of all.

Made from the declarations at first use, aside of the event loop, and kept until what is served
changes. Knows no request. Mirrors the builders and the caches of kube-openapi.
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
from kapiserver.apiserver.version import GIT_VERSION

_BEARER = {
    "description": "A token in the Authorization header.",
    "type": "apiKey",
    "name": "authorization",
    "in": "header",
}
_NAMES = {PATCH: PATCH_NAME, VERSION_INFO: VERSION_INFO_NAME}
_INFO = {"title": "Kubernetes", "version": GIT_VERSION}

Encode: TypeAlias = Callable[[Tree], bytes]


@dataclass(slots=True)
class Document:
    """A document's JSON, its hash, and when it came to be (seconds since 1970)."""

    json: bytes
    etag: str
    modified: float
    encode: Encode
    _message: asyncio.Task[bytes] | None = None

    async def protobuf(self) -> bytes:
        """The same document as a gnostic message, made aside and kept. Who leaves does not end it
        for others."""
        if self._message is None:
            made = asyncio.to_thread(lambda: self.encode(orjson.loads(self.json)))
            self._message = asyncio.ensure_future(made)
        return await asyncio.shield(self._message)


@dataclass(frozen=True, slots=True)
class _Page:
    """What one v3 document is about; `stamp` differs when what it says does. A document of custom
    kinds alone has its hash from that, so that the index of very many makes none of them.

    type_of  knows what was served when this was made: a custom kind may go meanwhile
    """

    stamp: Hashable
    operations: Callable[[], Iterable[Operation]]
    type_of: TypeOf
    etag: str = ""


@dataclass(slots=True)
class _Kept:
    """A document that is being made or is there, of a stamp."""

    stamp: Hashable
    document: asyncio.Task[Document]

    async def made(self) -> Document:
        """The document, once it is there. Who leaves does not end it for others."""
        return await asyncio.shield(self.document)


class Documents:
    """The documents of one scheme; `without` are media types that the server does not speak."""

    def __init__(
        self, scheme: Scheme, now: Callable[[], float], *, without: Collection[str] = ()
    ) -> None:
        self._scheme = scheme
        self._now = now
        self._without = frozenset(without)
        self._kept: dict[str, _Kept] = {}
        self._index: tuple[Hashable, Document] | None = None

    async def v2(self) -> Document:
        """The document of all group-versions."""
        pages = tuple(self._pages().values())
        stamp = tuple(page.stamp for page in pages)
        return await self._keep("v2", stamp, functools.partial(self._make_v2, pages)).made()

    async def v3(self, path: str) -> Document | None:
        """The document of one path of the index; None where there is no such."""
        page = self._pages().get(path)
        return None if page is None else await self._v3(path, page).made()

    async def index(self) -> Document:
        """All v3 documents and where they are, their hashes in the URLs."""
        pages = self._pages()
        stamp = tuple((path, page.stamp) for path, page in pages.items())
        if self._index is None or self._index[0] != stamp:
            for gone in self._kept.keys() - pages.keys() - {"v2"}:
                del self._kept[gone]
            paths = {}
            for path, page in pages.items():
                etag = page.etag or (await self._v3(path, page).made()).etag
                url = f"/openapi/v3/{path}?hash={etag}"
                paths[path] = {"serverRelativeURL": url}
            self._index = (stamp, self._document({"paths": paths}, encode_v3))
        return self._index[1]

    def _v3(self, path: str, page: _Page) -> _Kept:
        return self._keep(path, page.stamp, functools.partial(self._make_v3, page))

    def _keep(self, path: str, stamp: Hashable, make: Callable[[], Document]) -> _Kept:
        kept = self._kept.get(path)
        if kept is None or kept.stamp != stamp or _failed(kept.document):
            made = asyncio.ensure_future(asyncio.to_thread(make))
            kept = self._kept[path] = _Kept(stamp, made)
        return kept

    def _pages(self) -> dict[str, _Page]:
        """By the path below /openapi/v3, sorted."""
        type_of = _types_of(self._scheme)
        pages = {
            one.path.strip("/"): _Page("", functools.partial(_only, one), type_of) for one in ROOTS
        }
        for group in self._scheme.groups:
            if group.name:
                of_group = functools.partial(operations_of_group, group)
                pages[f"apis/{group.name}"] = _Page(group.versions, of_group, type_of)
            for version in group.group_versions:
                path = f"apis/{version}" if version.group else f"api/{version}"
                resources = _resources(self._scheme, version)
                pages[path] = _Page(
                    tuple(resources),
                    functools.partial(operations, type_of, version, resources),
                    type_of,
                    _hash_of(resources),
                )
        return dict(sorted(pages.items()))

    def _make_v3(self, page: _Page) -> Document:
        found = [self._spoken(one) for one in page.operations()]
        schemas = schemas_of(self._scheme, "v3")
        tree = {
            "openapi": "3.0.0",
            "info": _INFO,
            "paths": paths_v3(found, _ref(page.type_of, schemas)),
            "components": {
                "schemas": _definitions(page.type_of, schemas, found),
                "securitySchemes": {"BearerToken": _BEARER},
            },
        }
        made = self._document(tree, encode_v3)
        return replace(made, etag=page.etag) if page.etag else made

    def _make_v2(self, pages: Sequence[_Page]) -> Document:
        type_of = pages[0].type_of
        found = [self._spoken(one) for page in pages for one in page.operations()]
        schemas = schemas_of(self._scheme, "v2")
        paths = paths_v2(found, _ref(type_of, schemas))
        parameters = share_parameters(paths)
        tree = {
            "swagger": "2.0",
            "info": _INFO,
            "paths": paths,
            "definitions": _definitions(type_of, schemas, found),
            "parameters": parameters,
            "securityDefinitions": {"BearerToken": _BEARER},
            "security": [{"BearerToken": []}],
        }
        return self._document(tree, encode_v2)

    def _spoken(self, one: Operation) -> Operation:
        """The operation less the media types that are off."""
        if not self._without:
            return one
        return replace(
            one,
            consumes=tuple(name for name in one.consumes if name not in self._without),
            produces=tuple(name for name in one.produces if name not in self._without),
        )

    def _document(self, tree: Tree, encode: Encode) -> Document:
        body = orjson.dumps(tree)
        return Document(body, hashlib.sha512(body).hexdigest().upper(), self._now(), encode)


def _hash_of(resources: Iterable[Resource]) -> str:
    """What tells the documents of custom kinds apart; "" where others are among them."""
    editions = [(one.spec_hash, repr(one)) for one in resources]
    if not editions or not all(spec_hash for spec_hash, _ in editions):
        return ""
    return hashlib.sha512(f"{GIT_VERSION} {editions}".encode()).hexdigest().upper()


def _failed(task: asyncio.Task[Document]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


def _only(one: Operation) -> tuple[Operation]:
    return (one,)


def _resources(scheme: Scheme, version: GroupVersion) -> list[Resource]:
    found = scheme.resources(version.group)
    return [resource for resource in found if version.version in resource.versions]


def _ref(type_of: TypeOf, schemas: Schemas) -> Ref:
    @functools.cache
    def ref(kind: GroupVersionKind) -> Tree:
        if kind == STRING:
            return {"type": "string"}
        name = _NAMES.get(kind)
        return schemas.reference(name) if name else schemas.ref(type_of(kind))

    return ref


def _definitions(type_of: TypeOf, schemas: Schemas, found: Iterable[Operation]) -> Tree:
    """The schemas of all that operations take and answer, sorted."""
    kinds = {kind for one in found for kind in (one.body, one.answer) if kind is not None}
    undeclared = {_NAMES[kind]: UNDECLARED[_NAMES[kind]] for kind in kinds if kind in _NAMES}
    roots: list[type[Type]] = [
        type_of(kind) for kind in sorted(kinds) if kind not in _NAMES and kind != STRING
    ]
    return dict(sorted((schemas.collect(roots) | undeclared).items()))


def _types_of(scheme: Scheme) -> TypeOf:
    """From kinds to types, the custom kinds of now among them."""
    custom = scheme.custom

    def type_of(kind: GroupVersionKind) -> type[Type]:
        if kind == WATCH_EVENT:
            return WatchEvent
        return custom.type_of(kind) or scheme.type_of(kind)

    return type_of
