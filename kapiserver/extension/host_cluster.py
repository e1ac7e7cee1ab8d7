"""The host cluster of an extension API server: where it is, and requests to it.

Mirrors BuildConfigFromFlags of client-go.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from urllib.parse import urlencode

import orjson
from msgspec import Struct

from kapiserver.api.types import Tree
from kapiserver.apiserver.configuration_files import BadConfiguration
from kapiserver.apiserver.http_client.connection import HttpResponse
from kapiserver.apiserver.http_client.pool import Origin
from kapiserver.apiserver.http_client.session import HttpRequest, StreamingClient
from kapiserver.apiserver.http_client.urls import split_url
from kapiserver.apiserver.webhooks.credentials import ClientCredentials
from kapiserver.apiserver.webhooks.http_client import WebhookFailed
from kapiserver.apiserver.webhooks.in_cluster import cluster_of_pod
from kapiserver.apiserver.webhooks.kubeconfig import (
    KubeconfigWebhook,
    cluster_context,
    read_cluster,
)
from kapiserver.storage.concurrency.clock import Clock

MAX_BYTES = 4 << 20
"""The largest response."""
REVIEW_SECONDS = 10.0
"""The time of a review, that of Go's extension API servers."""


class HostFailed(Exception):
    """The host does not answer as it should. `status` is that of its answer; 0 without one."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class HostCluster(Struct, frozen=True, kw_only=True):
    """A cluster and a user, as a kubeconfig has them. Relative paths begin at `folder`."""

    cluster: Tree
    user: Tree
    folder: Path

    def reviews(self, path: str, clock: Clock) -> KubeconfigWebhook:
        """Return what posts reviews to a path. Raises BadConfiguration."""
        cluster = {**self.cluster, "server": self.cluster["server"].rstrip("/") + path}
        return KubeconfigWebhook(cluster, self.user, self.folder, clock, timeout=REVIEW_SECONDS)

    async def get(self, client: StreamingClient, path: str) -> Tree:
        """Return the object at a path. Raises HostFailed."""
        try:
            value = orjson.loads(await self.read(client, path, {}, MAX_BYTES))
        except ValueError as error:
            raise HostFailed(f"{path}: {error}") from None
        if not isinstance(value, dict):
            raise HostFailed(f"{path}: not an object")
        return value

    async def read(
        self, client: StreamingClient, path: str, query: Mapping[str, str], max_bytes: int
    ) -> bytes:
        """Return the body of a successful response. Raises HostFailed."""
        response = await self._request(client, _target(path, query))
        try:
            body = await response.read(max_bytes)
        except (OSError, ValueError) as error:
            raise HostFailed(f"{path}: {error}") from None
        finally:
            response.close()
        if response.status != 200:
            raise HostFailed(f"{path}: {_message(body) or response.status}", response.status)
        return body

    async def watch(
        self, client: StreamingClient, path: str, query: Mapping[str, str]
    ) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of a watch as they arrive, until the host ends it. Raises HostFailed."""
        target = _target(path, query)
        response = await self._request(client, target)
        try:
            if response.status != 200:
                raise HostFailed(f"{path}: {response.status}", response.status)
            async for piece in response.pieces():
                yield piece
        except (OSError, ValueError) as error:
            raise HostFailed(f"{target}: {error}") from None
        finally:
            response.close()

    async def _request(self, client: StreamingClient, target: str) -> HttpResponse:
        """Send a GET. Reads the credentials again. Raises HostFailed."""
        url = split_url(self.cluster["server"])
        credentials = ClientCredentials(self.user, self.folder)
        try:
            context = cluster_context(self.cluster, credentials, self.folder)
            name, proxy = self.cluster.get("tls-server-name"), self.cluster.get("proxy-url")
            tls = context if url.scheme == "https" else None
            headers = [("Accept", "application/json"), *credentials.headers().items()]
            request = HttpRequest(
                method="GET",
                origin=Origin(url.host, url.port, tls, name or "", proxy or ""),
                target=url.path.rstrip("/") + target,
                headers=headers,
            )
            return await client.request(request)
        except (OSError, ValueError, BadConfiguration, WebhookFailed) as error:
            raise HostFailed(f"{target}: {error or type(error).__name__}") from None


def _target(path: str, query: Mapping[str, str]) -> str:
    return f"{path}?{urlencode(query)}" if query else path


def _message(body: bytes) -> str:
    """Return the message of a Status, or ""."""
    try:
        status = orjson.loads(body)
    except ValueError:
        return ""
    return str(status.get("message") or "") if isinstance(status, dict) else ""


def find_host(kubeconfig: Path | None) -> HostCluster | None:
    """Return the cluster of a kubeconfig file, or that of the pod in which this process runs; None
    if there is neither. Raises BadConfiguration."""
    if kubeconfig is not None:
        cluster, user = read_cluster(kubeconfig, purpose="host cluster")
        return HostCluster(cluster=cluster, user=user, folder=kubeconfig.parent)
    in_pod = cluster_of_pod()
    if in_pod is None:
        return None
    cluster, user, folder = in_pod
    return HostCluster(cluster=cluster, user=user, folder=folder)
