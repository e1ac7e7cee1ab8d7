"""Connections to extension API servers, over which this server proves who it is.

It shows the certificate of `--proxy-client-cert-file`, and verifies that of the extension API
server by the CA bundle of the APIService and the name SERVICE.NAMESPACE.svc. A Service is only
reached at addresses that the guard of pods allows, whatever its external name resolves to: users
who may write Services must not reach what only this server can reach. The addresses that the
administrator has given are exempt. Mirrors BuildTransportConfig of k8s.io/kube-aggregator, and
SetAuthProxyHeaders of client-go.
"""

from __future__ import annotations

import functools
import os
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Sequence
from pathlib import Path
from urllib.parse import quote

from msgspec import Struct

from kapiserver.apiserver.aggregation.api_services import APIService, ServiceReference
from kapiserver.apiserver.aggregation.service_resolver import (
    Mapped,
    ServiceResolver,
    read_mapping,
)
from kapiserver.apiserver.http_client.addresses import is_global_unicast
from kapiserver.apiserver.http_client.connection import HttpResponse
from kapiserver.apiserver.http_client.errors import HostPort
from kapiserver.apiserver.http_client.pool import Origin
from kapiserver.apiserver.http_client.session import HttpRequest, StreamingClient
from kapiserver.apiserver.proxy_settings import AggregationSettings
from kapiserver.apiserver.user import User
from kapiserver.storage.cache.offload import Offloader
from kapiserver.storage.objects.store_registry import StoreRegistry

AGGREGATOR = User(name="system:kube-aggregator", groups=("system:masters",))
"""The user of checks and of requests for discovery."""
OPENAPI_AGGREGATOR = User(name="system:aggregator")
"""The user of requests for OpenAPI documents."""
MAX_CONTEXTS = 1024
"""The TLS contexts that are kept; more than there are APIServices."""

_IN_HEADER_NAMES = "!#$&'*+-.^_`|~"


class BadTransport(ValueError):
    """No connection can be made with these certificates; the message is Go's."""


class BackEnd(Struct, frozen=True, kw_only=True):
    """An extension API server that was found.

    host_port     host and port of its address
    is_trusted  whether the administrator has given the address
    context     TLS for it
    """

    service: ServiceReference
    host_port: HostPort
    is_trusted: bool
    context: ssl.SSLContext

    def url(self, target: str) -> str:
        """Return the URL of a path with its query, both quoted."""
        return f"https://{self.host_port}{target}"


class BackEnds:
    """The connections of one server; they stay open for further requests.

    pseudonym   names this server in the header Via of what it sends, so that it recognizes a
                request that comes back
    waiting     how many requests wait for an extension API server, by name of the APIService
    """

    def __init__(
        self, settings: AggregationSettings, stores: StoreRegistry, offloader: Offloader
    ) -> None:
        """Raises ValueError for an unusable file."""
        self.pseudonym = f"kapiserver-{os.urandom(8).hex()}"
        self._settings = settings
        self._offloader = offloader
        file = settings.service_resolver
        mapped: Mapped = {} if file is None else read_mapping(file)
        self.resolver = ServiceResolver(
            stores, offloader, mapped, uses_endpoints=settings.enable_aggregator_routing
        )
        self._contexts: dict[tuple[ServiceReference, str, bool], ssl.SSLContext] = {}
        self.waiting: Counter[str] = Counter()
        self._clients: dict[bool, StreamingClient] = {}
        """The clients for trusted addresses and for others."""
        if settings.proxy_client_cert_file or settings.proxy_client_key_file:
            load_proxy_certificate(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), self._settings)

    @property
    def files(self) -> Sequence[Path]:
        """The files that `reload` reads again."""
        files = (self._settings.proxy_client_cert_file, self._settings.proxy_client_key_file)
        return [file for file in files if file is not None]

    def reload(self) -> None:
        """Use the certificate as its files are now for new connections. Raises ValueError, and goes
        on with the old one, if they are unusable."""
        load_proxy_certificate(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), self._settings)
        self._contexts.clear()

    async def locate(self, api_service: APIService) -> BackEnd:
        """Return the extension API server of an APIService that names a Service. Raises Unresolved,
        and BadTransport for certificates that cannot be used."""
        service = api_service.service
        assert service is not None
        mapped = self.resolver.mapped(service)
        host_port = mapped or await self.resolver.resolve(service)
        # A context for each Service: connections with the same context are used again without
        # another look at the name in the certificate.
        key = (service, api_service.ca_bundle, api_service.is_unverified)
        context = self._contexts.get(key)
        if context is None:
            context = await self._offloader.run_in_thread(self._make_context, api_service)
            if len(self._contexts) >= MAX_CONTEXTS:
                self._contexts.clear()
            self._contexts[key] = context
        return BackEnd(
            service=service, host_port=host_port, is_trusted=mapped is not None, context=context
        )

    def send(
        self,
        back_end: BackEnd,
        method: str,
        target: str,
        headers: Sequence[tuple[str, str]],
        body: bytes | AsyncIterator[bytes] | None = None,
    ) -> Coroutine[None, None, HttpResponse]:
        """Send a request for a path with its query, both quoted, and return the response, which the
        caller closes. Raises the errors of `StreamingClient.request`."""
        client = self._client(is_trusted=back_end.is_trusted)
        host, port = back_end.host_port
        outgoing = HttpRequest(
            method=method,
            origin=Origin(host, port, back_end.context, back_end.service.server_name),
            target=target,
            headers=headers,
            body=body,
        )
        return client.request(outgoing)

    def close(self) -> None:
        """Close all connections. Idempotent."""
        for client in self._clients.values():
            client.close()

    def _client(self, *, is_trusted: bool) -> StreamingClient:
        if is_trusted not in self._clients:
            guard = None if is_trusted else is_global_unicast
            self._clients[is_trusted] = StreamingClient(guard=guard)
        return self._clients[is_trusted]

    def _make_context(self, api_service: APIService) -> ssl.SSLContext:
        if api_service.is_unverified:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        else:
            try:
                context = ssl.create_default_context(cadata=api_service.ca_bundle or None)
            except (ssl.SSLError, ValueError):
                message = "unable to load root certificates: unable to parse bytes as PEM block"
                raise BadTransport(message) from None
        load_proxy_certificate(context, self._settings)
        return context


def load_proxy_certificate(context: ssl.SSLContext, settings: AggregationSettings) -> None:
    """Show the certificate of `--proxy-client-cert-file`, if any. Raises BadTransport."""
    certificate, key = settings.proxy_client_cert_file, settings.proxy_client_key_file
    if certificate is None and key is None:
        return
    if certificate is None or key is None:
        raise BadTransport("--proxy-client-cert-file and --proxy-client-key-file need each other")
    try:
        context.load_cert_chain(certificate, key)
    except OSError as error:  # ssl.SSLError is one; neither names the file
        raise BadTransport(f"cannot use {certificate} with key {key}: {error}") from error


def user_headers(user: User) -> list[tuple[str, str]]:
    """Return the headers that tell an extension API server who the user is."""
    headers = [("X-Remote-User", user.name)]
    if user.uid:
        headers.append(("X-Remote-Uid", user.uid))
    headers += [("X-Remote-Group", group) for group in user.groups]
    headers += [
        (_extra_header(key), value) for key, values in user.extra.items() for value in values
    ]
    return headers


@functools.lru_cache(maxsize=256)
def _extra_header(key: str) -> str:
    """Return the header of an extra field of a user."""
    return f"X-Remote-Extra-{quote(key, safe=_IN_HEADER_NAMES)}"
