"""Calls the webhook of a `clientConfig`, by URL or through a service.

A service is reached at one of its endpoints, as with kube-apiserver's
`--enable-aggregator-routing`, and its certificate must name `<service>.<namespace>.svc`. Knows no
particular review. Mirrors k8s.io/apiserver/pkg/util/webhook/client.go and
k8s.io/apiserver/pkg/util/proxy.
"""

from __future__ import annotations

import base64
import functools
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from kapiserver.api.accessors import value_at
from kapiserver.api.group import CORE
from kapiserver.api.types import Tree
from kapiserver.apiserver.webhooks import http_client
from kapiserver.apiserver.webhooks.http_client import (
    Address,
    Call,
    HttpClient,
    WebhookFailed,
    clean_url,
    decode_review,
    encode_review,
    tls_context,
)
from kapiserver.apiserver.webhooks.metrics import ClientMetrics
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.errors import NotFound
from kapiserver.storage.objects.store_registry import StoreRegistry

_random = random.SystemRandom()
"""Not the generator of the module, whose state belongs to the program that runs the server."""

ResolveService: TypeAlias = Callable[[StoreRegistry, str, str, int], Awaitable[tuple[str, int]]]
"""Returns the host and the port at which a service is reached, given the stores, the namespace and
name of the service, and its port. Raises WebhookFailed."""


async def service_endpoint(
    stores: StoreRegistry, namespace: str, name: str, port: int
) -> tuple[str, int]:
    """Return a random endpoint of a service. Raises WebhookFailed."""
    service = await _get_object(stores, "services", "service", namespace, name)
    endpoints: Tree = {}
    if value_at(service, "spec", "type") != "ExternalName":
        endpoints = await _get_object(stores, "endpoints", "endpoints", namespace, name)
    return _random.choice(endpoint_addresses(service, endpoints, port))


async def call_webhook(
    stores: StoreRegistry, config: Tree, review: Tree, metrics: ClientMetrics
) -> Any:
    """Post a review to the webhook of a `clientConfig` and return the response. Raises
    WebhookFailed."""
    client_config = ClientConfig(config, http_client.TIMEOUT)
    address = await client_config.resolve_address(stores)
    body = await encode_review(review)
    call = Call(body=body, timeout=http_client.TIMEOUT, max_bytes=http_client.MAX_BYTES)
    async with HttpClient(metrics) as client:
        context = tls_context(client_config.authorities)
        return await decode_review(await client.send(address, context, call))


class ClientConfig:
    """A compiled `clientConfig` of a webhook whose calls may take that many seconds.

    host    host and port, as the users of a kubeconfig file name them
    """

    def __init__(self, config: Tree, seconds: float) -> None:
        self._config = config
        self._reference: Tree = config.get("service") or {}
        if config.get("url"):
            url = clean_url(config["url"])
            self._name = ""
        else:
            name, namespace = self._service
            self._name = f"{name}.{namespace}.svc"
            path = self._reference.get("path") or ""
            url = clean_url(f"https://{self._name}:{self._port}/{path}")
        self.host = _host_and_port(url)
        self._address = Address(url=f"{url}?timeout={seconds:g}s", name=self._name)

    @property
    def _service(self) -> tuple[str, str]:
        return self._reference.get("name") or "", self._reference.get("namespace") or ""

    @property
    def _port(self) -> int:
        return self._reference.get("port") or 443

    @functools.cached_property
    def authorities(self) -> str:
        """The certificates of `caBundle` in PEM; "" means those of the system. Raises
        WebhookFailed."""
        try:
            return base64.b64decode(self._config.get("caBundle") or "").decode()
        except ValueError as error:
            raise WebhookFailed(f"unable to load root certificates: {error}") from None

    async def resolve_address(
        self, stores: StoreRegistry, resolve: ResolveService = service_endpoint
    ) -> Address:
        """Return the address: that of the URL, or of the service. The query of its URL has the
        seconds that a call may take. Raises WebhookFailed."""
        if not self._name:
            return self._address
        url = self._address.url
        name, namespace = self._service
        try:
            dial = await resolve(stores, namespace, name, self._port)
        except WebhookFailed as error:
            raise WebhookFailed(f'Post "{url}": {error}') from None
        return Address(url=url, dial=dial, name=self._name)


def _host_and_port(url: str) -> str:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or 443
    except ValueError:
        return ""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def _get_object(
    stores: StoreRegistry, plural: str, noun: str, namespace: str, name: str
) -> Tree:
    try:
        store = stores.by_name(CORE, plural)
        return (await store.get(ObjectKey(namespace, name), resource_version="0")).tree()
    except NotFound:
        raise WebhookFailed(f'{noun} "{name}" not found') from None


def endpoint_addresses(service: Tree, endpoints: Tree, port: int) -> Sequence[tuple[str, int]]:
    """Return the hosts and ports at which a port of a service is reached. Raises WebhookFailed."""
    name, spec = service["metadata"]["name"], service["spec"]
    if spec.get("type") == "ExternalName":
        return [(spec["externalName"], port)]
    ports = [port_.get("name") or "" for port_ in spec.get("ports") or () if port_["port"] == port]
    if not ports:
        raise WebhookFailed(f'no service port {port} found for service "{name}"')
    addresses = [
        (address["ip"], port_["port"])
        for subset in endpoints.get("subsets") or ()
        for port_ in subset.get("ports") or ()
        if (port_.get("name") or "") == ports[0]
        for address in subset.get("addresses") or ()
    ]
    if not addresses:
        raise WebhookFailed(f'no endpoints available for service "{name}"')
    return addresses
