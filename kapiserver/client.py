"""A small client for any Kubernetes API server; objects are trees, encodings are negotiated.

    async with Client(url, token="...") as client:
        config_maps = client.resource("v1", "configmaps", namespace="default")
        await config_maps.create({"metadata": {"name": "x"}})
        async for event in config_maps.follow():
            ...

It requests the encoding it prefers and accepts JSON too. If the server refuses a body with 415, the
client sends JSON for that method and resource from then on. The Scheme is used only to encode and
decode Protobuf. Mirrors the client side of KEP-4222 and of the API chunking and Protobuf proposals,
and client-go's dynamic client and reflector.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import aiohttp
import orjson
from msgspec import Struct
from yarl import URL

from kapiserver.api.group import GroupVersion
from kapiserver.api.http_resource import APPLY_PATCH, HttpResource, Parameters
from kapiserver.api.resource_client import Event, StatusError
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import Tree
from kapiserver.codecs.codec_factory import CodecFactory
from kapiserver.codecs.errors import CodecError, Malformed, NotEncodable
from kapiserver.codecs.media_types import CBOR, JSON, PROTOBUF, MediaType
from kapiserver.codecs.protobuf.serializer import read_watch_event

if TYPE_CHECKING:
    from kapiserver.apiserver.webhooks.cluster_access import ClusterAccess
    from kapiserver.extension.clients.typed_client import Objects
    from kapiserver.extension.objects import AnyObject

__all__ = ["Client", "Event", "Gates", "Resource", "StatusError"]

_MEDIA_BY_STREAM_TYPE = {
    media.stream_type.partition(";")[0]: media for media in (JSON, PROTOBUF, CBOR)
}
_UNSUPPORTED_MEDIA_TYPE = 415
_APPLY_TYPES = {CBOR.name: "application/apply-patch+cbor", JSON.name: APPLY_PATCH}


class Gates(Struct, frozen=True, kw_only=True):
    """Client feature gates of KEP-4222: whether CBOR is allowed, and whether it is preferred."""

    allow_cbor: bool = True
    prefer_cbor: bool = False


class Client:
    """A client of one server; use it in `async with`.

    prefer          encoding of requests and responses: "json", "protobuf" (JSON for kinds that the
                    Scheme does not have) or "cbor"; the gates may overrule it
    retry_seconds   the wait before `follow` tries again after an error
    """

    def __init__(
        self,
        url: str,
        *,
        token: str = "",
        ssl_context: ssl.SSLContext | None = None,
        prefer: Literal["json", "protobuf", "cbor"] = "json",
        gates: Gates | None = None,
        codecs: CodecFactory | None = None,
        retry_seconds: float = 1.0,
    ) -> None:
        self.gates = gates or Gates()
        self._url = url.rstrip("/")
        self._headers = {"User-Agent": "kapiserver-client"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._authorization: Callable[[], Mapping[str, str]] = dict
        """Returns further headers of each request: the credentials of a kubeconfig."""
        self._ssl = ssl_context
        self._server_name: str | None = None
        """The name in the server's certificate; None means the host of the URL."""
        self._proxy: str | None = None
        """The URL of an HTTP proxy."""
        self.codecs = codecs or CodecFactory(Scheme())
        self._preferred = self._choose_encoding(prefer)
        self._json_only: set[tuple[str, str]] = set()
        """(method, resource) pairs for which the server accepts JSON bodies only."""
        self.retry_seconds = retry_seconds
        self._session: aiohttp.ClientSession | None = None

    @classmethod
    def from_kubeconfig(cls, path: str | Path = "", **options: Any) -> Client:
        """Return a client of the cluster that a kubeconfig file names. Without a path it is that
        of $KUBECONFIG, else the cluster whose pod runs the program, else ~/.kube/config. Token
        files are read for each request, because tokens expire; a credential plugin is run once,
        here. Raises BadConfiguration, a ValueError: there is no usable file."""
        from kapiserver.apiserver.webhooks.cluster_access import cluster_access

        return cls.from_access(cluster_access(path), **options)

    @classmethod
    def from_access(cls, access: ClusterAccess, **options: Any) -> Client:
        """Return a client of a cluster that a kubeconfig gives access to."""
        client = cls(access.url, ssl_context=access.ssl_context, **options)
        client._authorization = access.headers
        client._server_name = access.server_name or None
        client._proxy = access.proxy or None
        return client

    def _choose_encoding(self, prefer: str) -> MediaType:
        if self.gates.allow_cbor and (self.gates.prefer_cbor or prefer == "cbor"):
            return CBOR
        return PROTOBUF if prefer == "protobuf" else JSON

    async def __aenter__(self) -> Client:
        connector = aiohttp.TCPConnector(ssl=self._ssl if self._ssl is not None else True)
        self._session = aiohttp.ClientSession(connector=connector, headers=self._headers)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._session is not None
        await self._session.close()

    def resource(self, version: str, name: str, *, namespace: str = "") -> Resource:
        """Return a resource, as in `resource("apps/v1", "deployments", namespace="x")`."""
        return Resource(self, GroupVersion.parse(version), name, namespace)

    def objects(self, type_: type[AnyObject], *, namespace: str = "") -> Objects[AnyObject]:
        """Return the objects of a class that a Resource declares, as instances of it. Raises
        TypeError if none declares it."""
        from kapiserver.extension.clients.typed_client import Objects  # not needed for trees

        return Objects(self, type_, namespace=namespace)

    async def call(
        self,
        method: str,
        path: str,
        *,
        resource: str = "",
        parameters: Parameters | None = None,
        body: Tree | bytes | None = None,
        content_type: str = "",
    ) -> Tree:
        """Send a request and return the object in the response. A body of bytes is sent as
        `content_type`; an object is sent in the preferred encoding, and with a `content_type` as an
        apply configuration. Raises StatusError, aiohttp.ClientError."""
        while True:
            media = self._media_for(method, resource)
            async with self._request(
                method, path, media, parameters=parameters, body=body, content_type=content_type
            ) as response:
                data = await response.read()
                if self._falls_back(response.status, media, method, resource, body):
                    continue
                return self._read_response(response, data)

    def _media_for(self, method: str, resource: str) -> MediaType:
        return JSON if (method, resource) in self._json_only else self._preferred

    def _falls_back(
        self, code: int, media: MediaType, method: str, resource: str, body: Tree | bytes | None
    ) -> bool:
        """Report whether to send the request again in JSON: the server refused the encoding."""
        if code != _UNSUPPORTED_MEDIA_TYPE or media is JSON or not isinstance(body, dict):
            return False
        self._json_only.add((method, resource))
        return True

    @asynccontextmanager
    async def _request(
        self,
        method: str,
        path: str,
        media: MediaType,
        *,
        parameters: Parameters | None,
        body: Tree | bytes | None = None,
        content_type: str = "",
        stream: bool = False,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        assert self._session is not None, "use it in `async with`"
        headers = {"Accept": self._accept_header(stream=stream), **self._authorization()}
        data: bytes | None = None
        if isinstance(body, dict):
            # Apply configurations have no Protobuf encoding.
            media = JSON if content_type and media is PROTOBUF else media
            media, data = self._encode(media, body)
            headers["Content-Type"] = _APPLY_TYPES[media.name] if content_type else media.name
        elif body is not None:
            data = body
            headers["Content-Type"] = content_type
        url = URL(self._url + path, encoded=True).with_query(dict(parameters or {}))
        timeout = aiohttp.ClientTimeout(total=None if stream else 60, sock_connect=10)
        async with self._session.request(
            method,
            url,
            headers=headers,
            data=data,
            timeout=timeout,
            server_hostname=self._server_name,
            proxy=self._proxy,
        ) as response:
            transport = response.connection.transport if response.connection else None
            try:
                yield response
            finally:
                # A connection that serves no other request is closed. A TLS close would wait for
                # the server, and a loop that ends would not wait for that.
                is_complete = response.content.is_eof()
                if transport is not None and (transport.is_closing() or not is_complete):
                    transport.abort()

    def _encode(self, media: MediaType, body: Tree) -> tuple[MediaType, bytes]:
        try:
            return media, self.codecs.serializer_for(media).encode(body)
        except NotEncodable:
            if media is not PROTOBUF:
                raise
            # Custom kinds have no Protobuf message.
            return JSON, self.codecs.serializer_for(JSON).encode(body)

    def _accept_header(self, *, stream: bool) -> str:
        preferred = self._preferred
        if preferred is JSON:
            return JSON.name
        name = preferred.stream_type if stream else preferred.name
        return f"{name},{JSON.name};q=0.9"

    def _read_response(self, response: aiohttp.ClientResponse, data: bytes) -> Tree:
        tree = self._decode(response.content_type, data)
        if response.status >= 400:
            raise StatusError(tree, response.status)
        return tree

    def _decode(self, content_type: str, data: bytes) -> Tree:
        """Decode a response by its Content-Type, which may differ from the preferred one."""
        if content_type == JSON.name:
            try:
                tree: Tree = orjson.loads(data)
            except orjson.JSONDecodeError as error:
                raise Malformed(str(error)) from None
            return tree
        if content_type == CBOR.name:
            return _read_cbor(data)
        if content_type == PROTOBUF.name:
            return self.codecs.serializer_for(PROTOBUF).decode(data).object
        return {"message": data.decode("utf-8", "replace")}

    async def watch_events(self, path: str, parameters: Parameters) -> AsyncGenerator[Event, None]:
        """Yield the events of one watch request until the server ends it. Raises StatusError, also
        for an ERROR event."""
        async with self._request(
            "GET", path, self._preferred, parameters=parameters, stream=True
        ) as response:
            if response.status >= 400:
                self._read_response(response, await response.read())
            media = _MEDIA_BY_STREAM_TYPE.get(response.content_type, JSON)
            assert media.framing is not None
            reader = media.framing.make_reader()
            async for chunk in response.content.iter_any():
                for frame in reader.feed(chunk):
                    event = self._decode_event(media, frame)
                    if event.type == "ERROR":
                        raise StatusError(event.object, int(event.object.get("code") or 500))
                    yield event

    def _decode_event(self, media: MediaType, frame: bytes) -> Event:
        if media is PROTOBUF:
            event = read_watch_event(frame)
            decoded = self.codecs.serializer_for(PROTOBUF).decode(event.object)
            return Event(event.type, decoded.object)
        tree = _read_cbor(frame) if media is CBOR else orjson.loads(frame)
        return Event(tree["type"], tree["object"])


def _read_cbor(data: bytes) -> Tree:
    # CBOR decodes objects of any kind without a schema.
    from kapiserver.codecs.cbor import decode_value  # loaded on first use

    tree: Tree = decode_value(data)
    return tree


class Resource(HttpResource):
    """The objects of one resource over HTTP, in one namespace or in all."""

    transport_errors = (aiohttp.ClientError, TimeoutError, CodecError)

    def __init__(self, client: Client, version: GroupVersion, name: str, namespace: str) -> None:
        super().__init__(version, name, namespace)
        self._client = client
        root = f"/apis/{version}" if version.group else f"/api/{version.version}"
        scope = f"/namespaces/{namespace}" if namespace else ""
        self.path = f"{root}{scope}/{name}"

    async def watch(
        self, *, resource_version: str = "", **parameters: str | int
    ) -> AsyncGenerator[Event, None]:
        """GET the path of the collection as a stream."""
        query: dict[str, str | int] = {**parameters, "watch": 1, "allowWatchBookmarks": 1}
        if resource_version:
            query["resourceVersion"] = resource_version
        async for event in self._client.watch_events(self.path, query):
            yield event

    async def _pause(self) -> None:
        await asyncio.sleep(self._client.retry_seconds)

    async def _call(
        self,
        method: str,
        name: str,
        subresource: str,
        parameters: Parameters,
        body: Tree | bytes | None = None,
        content_type: str = "",
    ) -> Tree:
        path = "/".join(part for part in (self.path, name, subresource) if part)
        return await self._client.call(
            method,
            path,
            resource=f"{self.version}/{self.name}/{subresource}",
            parameters=parameters,
            body=body,
            content_type=content_type,
        )
