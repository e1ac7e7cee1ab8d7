"""The host cluster of an extension API server: where it is, and requests to it.

Mirrors BuildConfigFromFlags and InClusterConfig of client-go.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

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
from kapiserver.apiserver.webhooks.kubeconfig import (
    KubeconfigWebhook,
    cluster_context,
    read_cluster,
)
from kapiserver.extension.delegation import SERVICE_ACCOUNT, url_in_pod
from kapiserver.storage.concurrency.clock import Clock

MAX_BYTES = 4 << 20
"""The largest response."""
REVIEW_SECONDS = 10.0
"""The time of a review, that of Go's extension API servers."""


class HostFailed(Exception):
    """The host does not answer as it should."""


class HostCluster(Struct, frozen=True, kw_only=True):
    """A cluster and a user, as a kubeconfig has them. Relative paths begin at `folder`."""

    cluster: Tree
    user: Tree
    folder: Path

    def reviews(self, path: str, clock: Clock) -> KubeconfigWebhook:
        """Return what posts reviews to a path. Raises BadConfiguration."""
        cluster = {**self.cluster, "server": self.cluster["server"].rstrip("/") + path}
        return KubeconfigWebhook(cluster, self.user, self.folder, clock, timeout=REVIEW_SECONDS)

    async def get(self, client: StreamingClient, target: str) -> Tree:
        """Return the object at a path. Raises HostFailed."""
        response = await self._request(client, target)
        try:
            body = await response.read(MAX_BYTES)
            value = orjson.loads(body)
        except (OSError, ValueError) as error:
            raise HostFailed(f"{target}: {error}") from None
        finally:
            response.close()
        if response.status != 200 or not isinstance(value, dict):
            message = value.get("message") if isinstance(value, dict) else ""
            raise HostFailed(f"{target}: {message or response.status}")
        return value

    async def watch(self, client: StreamingClient, target: str) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of a watch as they arrive, until the host ends it. Raises HostFailed."""
        response = await self._request(client, target)
        try:
            if response.status != 200:
                raise HostFailed(f"{target}: {response.status}")
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


def find_host(kubeconfig: Path | None) -> HostCluster | None:
    """Return the cluster of a kubeconfig file, or that of the pod in which this process runs; None
    if there is neither. Raises BadConfiguration."""
    if kubeconfig is not None:
        cluster, user = read_cluster(kubeconfig, purpose="host cluster")
        return HostCluster(cluster=cluster, user=user, folder=kubeconfig.parent)
    url = url_in_pod()
    if not url:
        return None
    cluster = {"server": url}
    if (SERVICE_ACCOUNT / "ca.crt").exists():
        cluster["certificate-authority"] = "ca.crt"
    return HostCluster(cluster=cluster, user={"tokenFile": "token"}, folder=SERVICE_ACCOUNT)
