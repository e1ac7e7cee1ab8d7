"""Connections to peers, over which this server proves who it is.

It shows the certificate of `--proxy-client-cert-file`, which peers trust to name users if its CA is
that of their `--requestheader-client-ca-file`, and verifies theirs by `--peer-ca-file`. Mirrors
BuildPeerProxy of pkg/controlplane/apiserver of kube-apiserver, and peer_discovery.go of
k8s.io/apiserver.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Sequence
from pathlib import Path

import orjson

from kapiserver.api.types import Tree
from kapiserver.apiserver.aggregation.back_ends import load_proxy_certificate, user_headers
from kapiserver.apiserver.http_client.connection import HttpResponse
from kapiserver.apiserver.http_client.errors import HostPort
from kapiserver.apiserver.http_client.pool import Origin
from kapiserver.apiserver.http_client.session import HttpRequest, StreamingClient
from kapiserver.apiserver.peers.peer_resources import PeerResources, peer_resources
from kapiserver.apiserver.proxy_settings import AggregationSettings, PeerSettings
from kapiserver.apiserver.user import AUTHENTICATED, User

SERVER_NAME = "kubernetes.default.svc"
"""The name in the certificate of every API server."""
PROXIED = "x-kubernetes-peer-proxied"
"""The header of a request that a peer has passed on: it goes no further."""
DISCOVERY_SECONDS = 5.0
MAX_DISCOVERY_BYTES = 64 << 20
_ACCEPT = ",".join(
    (
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList;profile=nopeer",
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    )
)
_DISCOVERY_USER = User(name="system:apiserver", uid="system:apiserver", groups=(AUTHENTICATED,))
"""The user of requests for discovery; unlike the server itself no administrator."""


class DiscoveryFailed(Exception):
    """A peer does not say now what it serves."""


class PeerConnections:
    """The connections of one server to its peers; they stay open for further requests.

    waiting     how many requests wait for a peer, by its identity
    """

    def __init__(self, settings: PeerSettings, proxy_settings: AggregationSettings) -> None:
        """Raises ValueError for a file that is missing or unusable."""
        for flag, file in (
            ("proxy-cert-file", proxy_settings.proxy_client_cert_file),
            ("proxy-key-file", proxy_settings.proxy_client_key_file),
        ):
            if file is None:
                raise ValueError(f"error building peer proxy handler, {flag} not specified")
        self._ca_file = settings.peer_ca_file
        self._proxy_settings = proxy_settings
        self._context = self._make_context()
        self._client = StreamingClient()
        self.waiting: Counter[str] = Counter()

    @property
    def files(self) -> Sequence[Path]:
        """The files that `reload` reads again."""
        settings = self._proxy_settings
        files = (self._ca_file, settings.proxy_client_cert_file, settings.proxy_client_key_file)
        return [file for file in files if file is not None]

    def reload(self) -> None:
        """Use the files as they are now for new connections. Raises ValueError, and goes on with
        the old ones, if they are unusable."""
        self._context = self._make_context()

    def send(
        self,
        peer: HostPort,
        method: str,
        target: str,
        headers: Sequence[tuple[str, str]],
        body: bytes | AsyncIterator[bytes] | None = None,
    ) -> Coroutine[None, None, HttpResponse]:
        """Send a request for a path with its query, both quoted, and return the response, which the
        caller closes. Raises the errors of `StreamingClient.request`."""
        outgoing = HttpRequest(
            method=method,
            origin=Origin(peer.host, peer.port, self._context, SERVER_NAME),
            target=target,
            headers=headers,
            body=body,
        )
        return self._client.request(outgoing)

    async def fetch_resources(self, peer: HostPort) -> PeerResources:
        """Return what a peer serves itself. Raises DiscoveryFailed."""
        try:
            async with asyncio.timeout(DISCOVERY_SECONDS):
                documents = [await self._fetch(peer, path) for path in ("/api", "/apis")]
        except (OSError, ValueError) as error:
            raise DiscoveryFailed(str(error) or type(error).__name__) from None
        try:
            return peer_resources(documents)
        except (KeyError, TypeError, AttributeError):
            raise DiscoveryFailed("malformed discovery") from None

    async def _fetch(self, peer: HostPort, path: str) -> Tree:
        headers = [*user_headers(_DISCOVERY_USER), ("Accept", _ACCEPT), (PROXIED, "true")]
        response = await self.send(peer, "GET", path, headers)
        try:
            body = await response.read(MAX_DISCOVERY_BYTES)
        finally:
            response.close()
        if response.status != 200:
            raise DiscoveryFailed(f"discovery request failed with status: {response.status}")
        document: Tree = orjson.loads(body)
        return document

    def close(self) -> None:
        """Close all connections. Idempotent."""
        self._client.close()

    def _make_context(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self._ca_file)
        except OSError as error:  # ssl.SSLError is one; neither names the file
            raise ValueError(f"cannot use {self._ca_file} as CA of peers: {error}") from error
        load_proxy_certificate(context, self._proxy_settings)
        return context
