"""The client with which checks ask an API server, kapiserver or another one.

One request after another, each with a time limit, by http.client of the standard library: a check
reads like its questions, and it needs the Date header and the certificate of the connection.
"""

from __future__ import annotations

import base64
import binascii
import functools
import http.client
import re
import ssl
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

import orjson

from kapiserver.api.types import Tree
from kapiserver.apiserver.http_client.proxies import proxy_headers
from kapiserver.apiserver.http_client.urls import split_url
from kapiserver.apiserver.webhooks.cluster_access import find_cluster, proxy_of
from kapiserver.apiserver.webhooks.credentials import ClientCredentials, read_pem
from kapiserver.apiserver.webhooks.kubeconfig import cluster_context
from kapiserver.storage.concurrency.clock import Clock

SECONDS = 10.0
"""The limit of one request."""
PAGE = 500
MAX_OBJECTS = 5000
"""The objects of a list that are looked at."""
MAX_BYTES = 64 << 20
"""The largest response that is read."""
_SAMPLE = re.compile(rb"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$", re.M)
_LABEL = re.compile(rb'(\w+)="((?:[^"\\]|\\.)*)"')


class RequestRefused(Exception):
    """The server has answered a request with an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Answer(NamedTuple):
    """A response: its status, body, and time by the clock of the server (None: it has no Date)."""

    status: int
    body: bytes
    date: datetime | None


class Sample(NamedTuple):
    """A series of /metrics."""

    labels: Mapping[str, str]
    value: float


class RemoteServer:
    """An API server at the address of a kubeconfig.

    clock       the time of this machine
    previous    the figures of an earlier report; {} if there is none
    """

    def __init__(self, kubeconfig: str | Path, clock: Clock, previous: Mapping[str, float]) -> None:
        """Read the kubeconfig. Raises BadConfiguration."""
        cluster, user, folder = find_cluster(kubeconfig)
        self.url: str = cluster["server"].rstrip("/")
        self._clock = clock
        self.previous = previous
        self.client_certificate = read_pem(user, "client-certificate", folder)
        self._credentials = ClientCredentials(user, folder)
        self._name = cluster.get("tls-server-name") or ""
        self._proxy = proxy_of(cluster)
        self._context = (
            cluster_context(cluster, self._credentials, folder)
            if self.url.startswith("https:")
            else None
        )

    @property
    def now(self) -> datetime:
        """The time of this machine."""
        return datetime.fromtimestamp(self._clock.now(), UTC)

    def ask(self, path: str) -> Answer:
        """GET a path and return the response. Raises OSError, http.client.HTTPException,
        WebhookFailed for a token file that cannot be read."""
        connection = self._connection()
        try:
            headers = dict(self._credentials.headers())
            target = urlsplit(self.url).path + path
            if self._proxy and self._context is None:  # the proxy gets the whole URL
                target = self.url + path
                headers |= proxy_headers(self._proxy)
            connection.request("GET", target, headers=headers)
            response = connection.getresponse()
            date = response.headers.get("Date")
            body = response.read(MAX_BYTES)
        finally:
            connection.close()
        return Answer(response.status, body, parsedate_to_datetime(date) if date else None)

    def get(self, path: str) -> Tree:
        """GET an object or a page of a list. Raises RequestRefused, and the errors of `ask`."""
        answer = self.ask(path)
        try:
            tree: Any = orjson.loads(answer.body)
        except orjson.JSONDecodeError:
            tree = {"message": answer.body[:200].decode(errors="replace").strip()}
        if answer.status >= 400 or not isinstance(tree, dict):
            message = tree.get("message") if isinstance(tree, dict) else ""
            raise RequestRefused(answer.status, message or f"status {answer.status}")
        return tree

    def items(self, path: str) -> Iterator[Tree]:
        """Yield the objects of a list, at most MAX_OBJECTS. Raises like `get`."""
        token = ""
        for _ in range(MAX_OBJECTS // PAGE):
            page = self.get(f"{path}?{urlencode({'limit': PAGE, 'continue': token})}")
            yield from page.get("items") or []
            token = (page.get("metadata") or {}).get("continue") or ""
            if not token:
                return

    def has(self, path: str) -> bool:
        """Report whether an object exists. Raises like `get`."""
        try:
            self.get(path)
        except RequestRefused as error:
            if error.status == http.client.NOT_FOUND:
                return False
            raise
        return True

    @functools.cached_property
    def _metrics(self) -> bytes:
        answer = self.ask("/metrics")
        if answer.status >= 400:
            raise RequestRefused(answer.status, f"/metrics: status {answer.status}")
        return answer.body

    def samples(self, name: str) -> Iterator[Sample]:
        """Yield the series of a metric. Raises RequestRefused, and the errors of `ask`."""
        for match in _SAMPLE.finditer(self._metrics):
            if match[1] == name.encode():
                labels = {
                    label.decode(): value.decode("utf-8", "replace")
                    for label, value in _LABEL.findall(match[2] or b"")
                }
                yield Sample(labels, float(match[3]))

    def certificate(self) -> bytes | None:
        """Return the server's certificate in DER; None without TLS. Raises OSError."""
        connection = self._connection()
        try:
            connection.connect()
            sock = connection.sock
            return sock.getpeercert(binary_form=True) if isinstance(sock, ssl.SSLSocket) else None
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        server = split_url(self.url)
        next_hop = split_url(self._proxy or self.url)
        host, port = next_hop.host, next_hop.port
        if self._context is None:
            return http.client.HTTPConnection(host, port, timeout=SECONDS)
        connection = NamedConnection(host, port, self._context, self._name or server.host)
        if self._proxy:
            headers = dict(proxy_headers(self._proxy))
            connection.set_tunnel(server.host, server.port, headers)
        return connection


class NamedConnection(http.client.HTTPConnection):
    """A connection with TLS to a server whose certificate has a certain name."""

    def __init__(self, host: str, port: int, context: ssl.SSLContext, name: str) -> None:
        super().__init__(host, port, timeout=SECONDS)
        self._context = context
        self._name = name

    def connect(self) -> None:
        """Connect, and complete the handshake. Raises OSError."""
        super().connect()
        try:
            self.sock = self._context.wrap_socket(self.sock, server_hostname=self._name)
        except BaseException:
            self.close()
            raise


def decode_bundle(tree: Tree) -> bytes:
    """Return the PEM text of a `caBundle`; b"" if there is none or it is not base64."""
    try:
        return base64.b64decode(tree.get("caBundle") or "", validate=True)
    except (binascii.Error, ValueError):
        return b""


def quoted(*parts: str) -> str:
    """Return the parts of a path, each quoted."""
    return "/".join(quote(part, safe="") for part in parts)


def time_of(text: str | None) -> datetime:
    """Return the time of an object's field; the first one of all for a missing field."""
    if not text:
        return datetime.min.replace(tzinfo=UTC)
    return datetime.fromisoformat(text.replace("Z", "+00:00"))
