"""Calls the webhook of a `clientConfig`, by URL or through a service.

A service is reached at one of its endpoints, as with kube-apiserver's
`--enable-aggregator-routing`, and its certificate must name `<service>.<namespace>.svc`. Knows no
particular review. Mirrors k8s.io/apiserver/pkg/util/webhook/client.go and
k8s.io/apiserver/pkg/util/proxy.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kapiserver.api.accessors import value_at
from kapiserver.api.group import CORE
from kapiserver.api.types import Tree
from kapiserver.apiserver.webhooks import http_client
from kapiserver.apiserver.webhooks.http_client import (
    Address,
    Call,
    HttpClient,
    WebhookFailed,
    decode_review,
    encode_review,
    tls_context,
)
from kapiserver.storage.entry import ObjectKey
from kapiserver.storage.errors import NotFound
from kapiserver.storage.store_registry import StoreRegistry


async def call_webhook(stores: StoreRegistry, config: Tree, review: Tree) -> Any:
    """Post a review to the webhook of a `clientConfig` and return the response. Raises
    WebhookFailed."""
    address = await _resolve_address(stores, config)
    address = replace(address, url=_with_timeout(address.url))
    context = tls_context(_authorities(config.get("caBundle") or ""))
    body = await encode_review(review)
    call = Call(body=body, timeout=http_client.TIMEOUT, max_bytes=http_client.MAX_BYTES)
    async with HttpClient() as client:
        return await decode_review(await client.send(address, context, call))


def _with_timeout(url: str) -> str:
    return f"{url}?timeout={http_client.TIMEOUT:g}s"


def _authorities(bundle: str) -> str:
    try:
        return base64.b64decode(bundle).decode()
    except ValueError as error:
        raise WebhookFailed(f"unable to load root certificates: {error}") from None


async def _resolve_address(stores: StoreRegistry, config: Tree) -> Address:
    if config.get("url"):
        return Address(url=config["url"])
    reference = config.get("service") or {}
    name, namespace = reference.get("name") or "", reference.get("namespace") or ""
    port = reference.get("port") or 443
    path = (reference.get("path") or "").lstrip("/")
    host = f"{name}.{namespace}.svc"
    url = f"https://{host}:{port}/{path}"
    try:
        service = await _get_object(stores, "services", "service", namespace, name)
        endpoints: Tree = {}
        if value_at(service, "spec", "type") != "ExternalName":
            endpoints = await _get_object(stores, "endpoints", "endpoints", namespace, name)
        dial = random.choice(endpoint_addresses(service, endpoints, port))
    except WebhookFailed as error:
        raise WebhookFailed(f'Post "{_with_timeout(url)}": {error}') from None
    return Address(url=url, dial=dial, name=host)


async def _get_object(
    stores: StoreRegistry, plural: str, noun: str, namespace: str, name: str
) -> Tree:
    try:
        return (await stores.by_name(CORE, plural).get(ObjectKey(namespace, name))).tree()
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
