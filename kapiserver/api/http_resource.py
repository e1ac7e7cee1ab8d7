"""The verbs of a resource as HTTP requests: method, path, query and body. Knows no HTTP library."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, TypeAlias

import orjson

from kapiserver.api.resource_client import MERGE_PATCH, ResourceClient
from kapiserver.api.types import Tree

APPLY_PATCH = "application/apply-patch+yaml"

Parameters: TypeAlias = Mapping[str, str | int]


class HttpResource(ResourceClient):
    """The objects of one resource, which `_call` reaches."""

    @abstractmethod
    async def _call(
        self,
        method: str,
        name: str,
        subresource: str,
        parameters: Parameters,
        body: Tree | bytes | None = None,
        content_type: str = "",
    ) -> Tree:
        """Send a request for the collection, an object of a name, or a subresource of it, and
        return the object in the response. A body of bytes is JSON; without a content type, a body
        is an object in the usual encoding of the client."""

    async def get(self, name: str, *, subresource: str = "", **parameters: str | int) -> Tree:
        """GET the path of one object."""
        return await self._call("GET", name, subresource, parameters)

    async def create(
        self, obj: Tree, *, name: str = "", subresource: str = "", **parameters: str | int
    ) -> Tree:
        """POST to the collection, or to a subresource."""
        return await self._call("POST", name, subresource, parameters, self._versioned(obj))

    async def update(self, obj: Tree, *, subresource: str = "", **parameters: str | int) -> Tree:
        """PUT to the path of one object."""
        name = obj["metadata"]["name"]
        return await self._call("PUT", name, subresource, parameters, self._versioned(obj))

    async def patch(
        self,
        name: str,
        patch: Any,
        *,
        type: str = MERGE_PATCH,
        subresource: str = "",
        **parameters: str | int,
    ) -> Tree:
        """PATCH the path of one object, in JSON."""
        body = orjson.dumps(patch)
        return await self._call("PATCH", name, subresource, parameters, body, content_type=type)

    async def apply(
        self, obj: Tree, *, manager: str, subresource: str = "", **parameters: str | int
    ) -> Tree:
        """PATCH with a configuration, in the usual encoding of the client."""
        name, config = obj["metadata"]["name"], self._versioned(obj)
        options = {"fieldManager": manager, **parameters}
        return await self._call(
            "PATCH", name, subresource, options, config, content_type=APPLY_PATCH
        )

    async def delete(self, name: str, options: Tree | None = None, **parameters: str | int) -> Tree:
        """DELETE the path of one object, with `options` as the body."""
        return await self._call("DELETE", name, "", parameters, _delete_options(options))

    async def delete_collection(self, options: Tree | None = None, **parameters: str | int) -> Tree:
        """DELETE the path of the collection, with `options` as the body."""
        return _with_item_kinds(
            await self._call("DELETE", "", "", parameters, _delete_options(options))
        )

    async def list_page(self, **parameters: str | int) -> Tree:
        """GET the path of the collection once."""
        return _with_item_kinds(await self._call("GET", "", "", parameters))


def _delete_options(options: Tree | None) -> Tree | None:
    return None if options is None else {"kind": "DeleteOptions", "apiVersion": "v1", **options}


def _with_item_kinds(page: Tree) -> Tree:
    """Return the page with kind and apiVersion added to its items, which lists leave out."""
    kind = str(page.get("kind") or "").removesuffix("List")
    type_meta = {"kind": kind, "apiVersion": page.get("apiVersion")}
    return {**page, "items": [{**type_meta, **item} for item in page.get("items") or []]}
