"""One question to a webhook and its answer, over HTTPS: by URL, or to a service.

No network of proxies is needed for a service: its address is that of one of its endpoints, as with
kube-apiserver's `--enable-aggregator-routing`, and the certificate must be of
`<service>.<namespace>.svc`. What goes wrong is said as Go's client says it. Knows no question.
Mirrors k8s.io/apiserver/pkg/util/webhook/client.go and k8s.io/apiserver/pkg/util/proxy.
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
"""Seconds for one answer."""
MOST_BYTES = 64 << 20
"""Of one answer."""
_TOLD = 2048
"""Bytes of an error's body that are told."""


class WebhookFailed(Exception):
    """Why there is no answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a webhook is.

    url   as it is told
    dial  what is connected to, where that is another host and port
    name  in its certificate; the URL's host where empty
    """

    url: str
    dial: tuple[str, int] | None = None
    name: str = ""


async def ask(stores: StoreRegistry, config: Tree, question: Tree) -> Any:
    """What the webhook of a `clientConfig` answers. Raises WebhookFailed."""
    address = await _address(stores, config)
    told = f"{address.url}?timeout={TIMEOUT:g}s"
    context = _context(config.get("caBundle") or "")
    body = await asyncio.to_thread(encode_value, question, option=SORT_KEYS)  # perhaps a long list
    try:
        data = await asyncio.wait_for(_post(told, address, context, body), TIMEOUT)
    except TimeoutError:
        raise WebhookFailed(f'Post "{told}": context deadline exceeded') from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise WebhookFailed(f'Post "{told}": {_told(error, address)}') from None
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
        before, _, after = url.partition("://")
        name, slash, path = after.partition("/")
        headers["Host"] = name
        url = f"{before}://{_joined(host, port)}{slash}{path}"
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as session,
        session.post(
            url,
            data=io.BytesIO(body),
            headers=headers,
            ssl=context,
            server_hostname=address.name or None,
            allow_redirects=False,
        ) as answer,
    ):
        data = bytearray()
        async for chunk in answer.content.iter_any():
            data += chunk
            if len(data) > MOST_BYTES:
                raise WebhookFailed(f"the answer is larger than {MOST_BYTES} bytes")
        if not 200 <= answer.status < 300:
            raise WebhookFailed(_refusal(answer.status, answer.content_type, bytes(data)))
    return bytes(data)


@functools.lru_cache(maxsize=64)
def _context(bundle: str) -> ssl.SSLContext:
    try:
        text = base64.b64decode(bundle).decode() if bundle else None
        return ssl.create_default_context(cadata=text)
    except (ValueError, ssl.SSLError) as error:
        raise WebhookFailed(f"unable to load root certificates: {error}") from None


# Where it is.


async def _address(stores: StoreRegistry, config: Tree) -> Address:
    if config.get("url"):
        return Address(url=config["url"])
    reference = config.get("service") or {}
    name, namespace = reference.get("name") or "", reference.get("namespace") or ""
    port = reference.get("port") or 443
    path = (reference.get("path") or "").lstrip("/")
    host = f"{name}.{namespace}.svc"
    url = f"https://{host}:{port}/{path}"
    try:
        service = await _found(stores, "services", "service", namespace, name)
        endpoints: Tree = {}
        if value_at(service, "spec", "type") != "ExternalName":
            endpoints = await _found(stores, "endpoints", "endpoints", namespace, name)
        dial = random.choice(addresses_of(service, endpoints, port))
    except WebhookFailed as error:
        raise WebhookFailed(f'Post "{url}?timeout={TIMEOUT:g}s": {error}') from None
    return Address(url=url, dial=dial, name=host)


async def _found(stores: StoreRegistry, plural: str, shown: str, namespace: str, name: str) -> Tree:
    try:
        return (await stores.by_name(CORE, plural).get(ObjectKey(namespace, name))).tree()
    except NotFound:
        raise WebhookFailed(f'{shown} "{name}" not found') from None


def addresses_of(service: Tree, endpoints: Tree, port: int) -> Sequence[tuple[str, int]]:
    """Where a service is reached that is asked for a port of its. Raises WebhookFailed."""
    name, spec = service["metadata"]["name"], service["spec"]
    if spec.get("type") == "ExternalName":
        return [(spec["externalName"], port)]
    ports = [one.get("name") or "" for one in spec.get("ports") or () if one["port"] == port]
    if not ports:
        raise WebhookFailed(f'no service port {port} found for service "{name}"')
    found = [
        (address["ip"], one["port"])
        for subset in endpoints.get("subsets") or ()
        for one in subset.get("ports") or ()
        if (one.get("name") or "") == ports[0]
        for address in subset.get("addresses") or ()
    ]
    if not found:
        raise WebhookFailed(f'no endpoints available for service "{name}"')
    return found


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


# What went wrong.


_CERTIFICATE = {
    10: "x509: certificate has expired or is not yet valid",
    18: "x509: certificate signed by unknown authority",
    19: "x509: certificate signed by unknown authority",
    20: "x509: certificate signed by unknown authority",
    21: "x509: certificate signed by unknown authority",
}
"""By OpenSSL's code of what it found."""


def _told(error: Exception, address: Address) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        problem = error.certificate_error
        code = getattr(problem, "verify_code", 0)
        return f"tls: failed to verify certificate: {_CERTIFICATE.get(code, problem)}"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"dial tcp: lookup {error.host}: no such host"
    if isinstance(error, aiohttp.ClientConnectorError) and error.errno == errno.ECONNREFUSED:
        port = error.port or 443
        return f"dial tcp {_joined(error.host, port)}: connect: connection refused"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "EOF"
    return str(error) or type(error).__name__


_REFUSALS: Mapping[int, str] = {
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


def _refusal(status: int, content_type: str, data: bytes) -> str:
    """What a client of Kubernetes makes of an answer that is none."""
    try:
        document = decode_value(data)
        if document["kind"] == "Status" and isinstance(document["message"], str):
            return str(document["message"])
    except (CodecError, LookupError, TypeError):
        pass
    text = data[:_TOLD].decode("utf-8", "replace").strip()
    text = text if content_type.startswith("text/") else "unknown"
    if status in (403, 406):
        return text
    if status in _REFUSALS:
        return _REFUSALS[status]
    if status >= 500:
        quoted = encode_value(text).decode()
        return f"an error on the server ({quoted}) has prevented the request from succeeding"
    return f"the server responded with the status code {status} but did not return more information"
