"""A client of objects that extension API servers serve, for the server itself and its controllers.

The caller has been authorized; the extension API server is told who the user is, as with requests
of clients. Trees are JSON. Mirrors the dynamic and the metadata client of client-go.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from urllib.parse import quote, urlencode

import orjson

from kapiserver.api.group import GroupVersion
from kapiserver.api.http_resource import HttpResource, Parameters
from kapiserver.api.resource_client import Event, StatusError
from kapiserver.api.types import Tree
from kapiserver.apiserver.aggregation.back_ends import BackEnds, BadTransport, user_headers
from kapiserver.apiserver.aggregation.service_resolver import Unresolved
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.http_client.connection import HttpResponse
from kapiserver.apiserver.status import status
from kapiserver.apiserver.user import User
from kapiserver.codecs.cost import LARGE, cost_of
from kapiserver.codecs.errors import TooLarge
from kapiserver.codecs.framing import JSON_LINES
from kapiserver.storage.concurrency.clock import wait

SECONDS = 10.0
"""The time until the response of a request, or the head of a watch, has arrived."""
MAX_BYTES = 64 << 20
RETRY_SECONDS = 1.0
"""The wait before `follow` tries again after a transient error."""
WATCH_GRACE_SECONDS = 30.0
"""A watch with `timeoutSeconds` is given up if it is still open this many seconds later."""
_JSON = "application/json"
_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
_METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
_NO_STATUS = "the extension API server sent an answer that is no Status"
_UNAVAILABLE = "the server is currently unable to handle the request"


class AggregatedResource(HttpResource):
    """The objects of one resource, in one namespace or in all. Every method raises StatusError,
    with the reason ServiceUnavailable if the extension API server cannot be reached."""

    def __init__(
        self,
        server: Server,
        user: User,
        version: GroupVersion,
        name: str,
        namespace: str = "",
        *,
        only_metadata: bool = False,
    ) -> None:
        """`only_metadata` asks for objects without their other fields, if the server can do
        that."""
        super().__init__(version, name, namespace)
        self._server = server
        self._user = user
        self._only_metadata = only_metadata

    async def watch(
        self, *, resource_version: str = "", **parameters: str | int
    ) -> AsyncGenerator[Event, None]:
        """GET the path of the collection as a stream."""
        query: dict[str, str | int] = {**parameters, "watch": 1, "allowWatchBookmarks": 1}
        if resource_version:
            query["resourceVersion"] = resource_version
        try:
            async with asyncio.timeout(SECONDS):
                response = await self._send("GET", "", "", query, None, _JSON)
        except (OSError, ValueError):
            raise _unavailable() from None
        try:
            if response.status != 200:
                await self._object(response)
            seconds = parameters.get("timeoutSeconds")
            limit = None if seconds is None else float(seconds) + WATCH_GRACE_SECONDS
            async with aclosing(self._events(response, limit)) as events:
                async for event in events:
                    yield event
        except (OSError, ValueError, TooLarge):
            raise _unavailable() from None
        finally:
            response.close()

    async def _events(
        self, response: HttpResponse, limit: float | None
    ) -> AsyncGenerator[Event, None]:
        """Yield the events of a watch, for `limit` seconds at most. Raises StatusError for an event
        of type ERROR, TimeoutError, OSError, ValueError, TooLarge."""
        end = None if limit is None else asyncio.get_running_loop().time() + limit
        pieces, reader = response.pieces(), JSON_LINES.make_reader()
        while True:
            async with asyncio.timeout_at(end):  # not around a yield: the caller may await, too
                piece = await anext(pieces, b"")
            if not piece:
                return
            for line in filter(bytes.strip, reader.feed(piece)):
                event = await self._decode(line)
                obj = event.get("object") or {}
                if event.get("type") == "ERROR":
                    raise StatusError(obj, int(obj.get("code") or 500))
                yield Event(str(event.get("type")), obj)

    async def _pause(self) -> None:
        await wait(self._server.clock, RETRY_SECONDS)

    async def _call(
        self,
        method: str,
        name: str,
        subresource: str,
        parameters: Parameters,
        body: Tree | bytes | None = None,
        content_type: str = "",
    ) -> Tree:
        try:
            async with asyncio.timeout(SECONDS):
                response = await self._send(
                    method, name, subresource, parameters, body, content_type
                )
                try:
                    return await self._object(response)
                finally:
                    response.close()
        except (OSError, ValueError):
            raise _unavailable() from None

    async def _object(self, response: HttpResponse) -> Tree:
        """Return the object in a response. Raises StatusError if it is an error, OSError,
        ValueError."""
        data = await response.read(MAX_BYTES)
        if 200 <= response.status < 300:
            return await self._decode(data)
        try:
            value = await self._decode(data)
        except ValueError:
            value = {}
        if value.get("kind") != "Status":
            value = status(code=response.status, message=_NO_STATUS)
        raise StatusError({**value, "code": response.status}, response.status)

    async def _decode(self, data: bytes) -> Tree:
        """Return the object that JSON text has, decoded in a thread if that takes long. Raises
        ValueError."""
        if cost_of(data) >= LARGE:
            value = await self._server.offloader.run_in_thread(orjson.loads, data, limited=False)
        else:
            value = orjson.loads(data)
        if not isinstance(value, dict):
            raise ValueError("not an object")
        return value

    async def _send(
        self,
        method: str,
        name: str,
        subresource: str,
        parameters: Parameters,
        body: Tree | bytes | None,
        content_type: str,
    ) -> HttpResponse:
        """Send a request and return the response. Raises StatusError, OSError, ValueError."""
        api_service = self._server.api_services.server_of(self.version)
        if api_service is None or not api_service.is_available:
            raise _unavailable()
        scope = ("namespaces", self.namespace) if self.namespace else ()
        parts = [part for part in (*scope, self.name, name, subresource) if part]
        target = "/".join((api_service.path, *(quote(part, safe="*") for part in parts)))
        if parameters:
            target += f"?{urlencode(parameters, doseq=True)}"
        accept = _JSON
        if self._only_metadata:
            is_list = method == "GET" and not name and "watch" not in parameters
            accept = _METADATA_LIST if is_list else _METADATA
        headers = [*user_headers(self._user), ("Accept", accept)]
        if body is not None:
            headers.append(("Content-Type", content_type or _JSON))
        data = orjson.dumps(body) if isinstance(body, dict) else body
        back_ends: BackEnds = self._server.back_ends()
        try:
            back_end = await back_ends.locate(api_service)
        except (Unresolved, BadTransport):
            raise _unavailable() from None
        return await back_ends.send(back_end, method, target, headers, data)


def _unavailable() -> StatusError:
    tree = status(code=503, reason="ServiceUnavailable", message=_UNAVAILABLE)
    return StatusError(tree, 503)
