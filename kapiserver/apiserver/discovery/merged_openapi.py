"""The OpenAPI documents of this server with those of extension API servers.

The index of v3 names the documents of extension API servers, which answer requests for them
themselves. Their parts of the v2 document are merged in a thread, once for each change. Mirrors
pkg/controllers/openapi/aggregator and openapiv3/aggregator of k8s.io/kube-aggregator.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence

import orjson
from msgspec import Struct

from kapiserver.api.types import Tree
from kapiserver.apiserver.aggregation.api_services import APIService, APIServices, OpenAPISource
from kapiserver.apiserver.aggregation.spec_merge import merge_spec
from kapiserver.apiserver.discovery.openapi_documents import OpenAPIDocument, OpenAPIDocuments


class _Merged(Struct, frozen=True):
    """A merged document, and what it was made of."""

    parts: object
    document: asyncio.Task[OpenAPIDocument]


class MergedOpenAPI:
    """The documents of one server. Without extension API servers they are its own."""

    def __init__(self, api_services: APIServices, now: Callable[[], float]) -> None:
        self._api_services = api_services
        self._now = now
        self._cache: dict[str, _Merged] = {}

    async def index(self, documents: OpenAPIDocuments) -> OpenAPIDocument:
        """Return the index of the v3 documents."""
        own = await documents.index()
        urls = {
            f"apis/{api_service.version}": self._source(api_service).v3_url
            for api_service in self._remote()
        }
        if not urls:
            return own
        make = functools.partial(self._merged_index, own, urls)
        return await self._document("v3", (own.etag, urls), make)

    async def v2(self, documents: OpenAPIDocuments) -> OpenAPIDocument:
        """Return the v2 document."""
        own = await documents.v2()
        specs = [
            source for api_service in self._remote() if (source := self._source(api_service)).v2
        ]
        if not specs:
            return own
        etags = [source.etag for source in specs]
        make = functools.partial(self._merged_v2, own, specs)
        return await self._document("v2", (own.etag, etags), make)

    def remote(self, path: str) -> tuple[APIService, str] | None:
        """Return the APIService whose extension API server has the v3 document of a path of the
        index, and the document's URL; None if this server has it."""
        for api_service in self._remote():
            if path == f"apis/{api_service.version}":
                return api_service, self._source(api_service).v3_url
        return None

    def _remote(self) -> Sequence[APIService]:
        """Return the APIServices of extension API servers, the highest priority first."""
        remote = self._api_services.remote.values()
        served = [
            api_service
            for api_service in remote
            if self._api_services.server_of(api_service.version) == api_service
        ]
        return sorted(
            served, key=lambda api_service: (-api_service.group_priority, api_service.name)
        )

    def _source(self, api_service: APIService) -> OpenAPISource:
        return self._api_services.openapi.get(api_service.name) or OpenAPISource()

    async def _document(
        self, path: str, parts: object, make: Callable[[], OpenAPIDocument]
    ) -> OpenAPIDocument:
        """Return a document, merged once in a thread. If a caller is cancelled, others still get
        it."""
        cached = self._cache.get(path)
        if cached is None or cached.parts != parts:
            task = asyncio.ensure_future(asyncio.to_thread(make))
            cached = self._cache[path] = _Merged(parts, task)
        return await asyncio.shield(cached.document)

    def _merged_index(self, own: OpenAPIDocument, urls: Mapping[str, str]) -> OpenAPIDocument:
        paths: Tree = orjson.loads(own.json)["paths"]
        for path, url in urls.items():
            paths.pop(path, None)  # one of this server is not served, if there is another
            if url:
                paths[path] = {"serverRelativeURL": url}
        return self._with_json(own, {"paths": dict(sorted(paths.items()))})

    def _merged_v2(self, own: OpenAPIDocument, sources: Sequence[OpenAPISource]) -> OpenAPIDocument:
        tree: Tree = orjson.loads(own.json)
        for source in sources:
            if source.v2 is not None:
                merge_spec(tree, source.v2)
        return self._with_json(own, tree)

    def _with_json(self, own: OpenAPIDocument, tree: Tree) -> OpenAPIDocument:
        body = orjson.dumps(tree)
        etag = hashlib.sha512(body).hexdigest().upper()
        return OpenAPIDocument(body, etag, self._now(), own.encode)
