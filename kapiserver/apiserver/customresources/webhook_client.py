"""Calls a webhook over HTTPS, by URL or through a service.

A service is reached at one of its endpoints, as with kube-apiserver's
`--enable-aggregator-routing`, and its certificate must name `<service>.<namespace>.svc`. Error
messages are those of Go's HTTP client. Knows no particular review. Mirrors
k8s.io/apiserver/pkg/util/webhook/client.go and k8s.io/apiserver/pkg/util/proxy.
"""

from __future__ import annotations

import asyncio
import base64
import errno
import functools
import io
import random
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp

from kapiserver.api.accessors import value_at
from kapiserver.api.group import CORE
from kapiserver.api.types import Tree
from kapiserver.codecs.errors import CodecError
from kapiserver.codecs.json import SORT_KEYS, decode_value, encode_value
from kapiserver.storage.entry import ObjectKey
from kapiserver.storage.errors import NotFound
from kapiserver.storage.store_registry import StoreRegistry

TIMEOUT = 30.0
"""Seconds until a call fails."""
MAX_BYTES = 64 << 20
"""The largest response."""
_ERROR_BYTES = 2048
"""Bytes of an error response's body that go into the message."""


class WebhookFailed(Exception):
    """The call failed; the message is kube-apiserver's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """The address of a webhook.

    url   as shown in error messages
    dial  host and port to connect to, if not those of the URL
    name  the name in its certificate; "" means the URL's host
    """

    url: str
    dial: tuple[str, int] | None = None
    name: str = ""


async def call_webhook(stores: StoreRegistry, config: Tree, review: Tree) -> Any:
    """Post a review to the webhook of a `clientConfig` and return the response. Raises
    WebhookFailed."""
    address = await _resolve_address(stores, config)
    url = f"{address.url}?timeout={TIMEOUT:g}s"
    context = _context(config.get("caBundle") or "")
    body = await asyncio.to_thread(encode_value, review, option=SORT_KEYS)  # may be a long list
    try:
        data = await asyncio.wait_for(_post(url, address, context, body), TIMEOUT)
    except TimeoutError:
        raise WebhookFailed(f'Post "{url}": context deadline exceeded') from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise WebhookFailed(f'Post "{url}": {_error_text(error, address)}') from None
    try:
        return await asyncio.to_thread(decode_value, data)
    except CodecError as error:
        raise WebhookFailed(str(error)) from None


async def _post(url: str, address: Address, context: ssl.SSLContext, body: bytes) -> bytes:
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json",
        "Accept-Encoding": "identity",
    }
    if address.dial is not None:
        host, port = address.dial
        scheme, _, rest = url.partition("://")
        host_header, slash, path = rest.partition("/")
        headers["Host"] = host_header
        url = f"{scheme}://{_join_host_port(host, port)}{slash}{path}"
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as session,
        session.post(
            url,
            data=io.BytesIO(body),
            headers=headers,
            ssl=context,
            server_hostname=address.name or None,
            allow_redirects=False,
        ) as response,
    ):
        data = bytearray()
        async for chunk in response.content.iter_any():
            data += chunk
            if len(data) > MAX_BYTES:
                raise WebhookFailed(f"the response is larger than {MAX_BYTES} bytes")
        if not 200 <= response.status < 300:
            raise WebhookFailed(_status_text(response.status, response.content_type, bytes(data)))
    return bytes(data)


@functools.lru_cache(maxsize=64)
def _context(bundle: str) -> ssl.SSLContext:
    try:
        text = base64.b64decode(bundle).decode() if bundle else None
        return ssl.create_default_context(cadata=text)
    except (ValueError, ssl.SSLError) as error:
        raise WebhookFailed(f"unable to load root certificates: {error}") from None


# The address.


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
        raise WebhookFailed(f'Post "{url}?timeout={TIMEOUT:g}s": {error}') from None
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


def _join_host_port(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


# Error messages.


_VERIFY_ERRORS = {
    10: "x509: certificate has expired or is not yet valid",
    18: "x509: certificate signed by unknown authority",
    19: "x509: certificate signed by unknown authority",
    20: "x509: certificate signed by unknown authority",
    21: "x509: certificate signed by unknown authority",
}
"""Go's messages by OpenSSL's verification error code."""


def _error_text(error: Exception, address: Address) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        certificate_error = error.certificate_error
        code = getattr(certificate_error, "verify_code", 0)
        return f"tls: failed to verify certificate: {_VERIFY_ERRORS.get(code, certificate_error)}"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"dial tcp: lookup {error.host}: no such host"
    if isinstance(error, aiohttp.ClientConnectorError) and error.errno == errno.ECONNREFUSED:
        port = error.port or 443
        return f"dial tcp {_join_host_port(error.host, port)}: connect: connection refused"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "EOF"
    return str(error) or type(error).__name__


_STATUS_TEXTS: Mapping[int, str] = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be "
    "processing the request",
}


def _status_text(status: int, content_type: str, data: bytes) -> str:
    """Return client-go's message for an error response."""
    try:
        document = decode_value(data)
        if document["kind"] == "Status" and isinstance(document["message"], str):
            return str(document["message"])
    except (CodecError, LookupError, TypeError):
        pass
    text = data[:_ERROR_BYTES].decode("utf-8", "replace").strip()
    text = text if content_type.startswith("text/") else "unknown"
    if status in (403, 406):
        return text
    if status in _STATUS_TEXTS:
        return _STATUS_TEXTS[status]
    if status >= 500:
        quoted = encode_value(text).decode()
        return f"an error on the server ({quoted}) has prevented the request from succeeding"
    return f"the server responded with the status code {status} but did not return more information"
