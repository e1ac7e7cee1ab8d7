"""A server with logical clusters, and their clients."""

from __future__ import annotations

import functools
import http.client
import itertools
import json
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from kapiserver.clusters.service import AdministratorAccess, LogicalClusters
from kapiserver.testing.server import TestServer

MAP = {"metadata": {"name": "x"}, "data": {"a": "1"}}
MAPS = "/api/v1/namespaces/default/configmaps"
CLUSTERS = "/apis/clusters.kapiserver.dev/v1/clusters"

TIMEOUT_SECONDS = 30.0

_numbers = itertools.count()


class Answer(NamedTuple):
    """A status code, the body as text, and decoded if it is JSON."""

    code: int
    text: str
    body: Any

    @property
    def names(self) -> list[str]:
        """The names of the items of a list."""
        assert self.code == 200, self.body
        return [item["metadata"]["name"] for item in self.body["items"]]


class Kit:
    """A running server with logical clusters."""

    def __init__(self, server: TestServer) -> None:
        self.server = server

    @classmethod
    @contextmanager
    def running(cls, **settings: Any) -> Iterator[Kit]:
        """Run a server with these settings until the block ends."""
        with TestServer(**{"enable_logical_clusters": True} | settings) as server:
            kit = cls(server)
            yield kit
            kit._connection.close()

    @property
    def clusters(self) -> LogicalClusters:
        """The clusters of the server."""
        clusters = self.server.running.clusters
        assert clusters is not None
        return clusters

    def create(self, name: str = "", **options: Any) -> AdministratorAccess:
        """Create a cluster, of a new name unless one is given."""
        return self.server.run(self.clusters.create(name or f"c{next(_numbers)}", **options))

    def delete(self, name: str) -> None:
        """Delete a cluster, and wait until it is gone."""
        self.server.run(self.clusters.delete(name))

    def rows(self, prefix: str = "") -> list[str]:
        """Return the keys of the rows of all clusters, without the root of all."""
        root = "/registry-clusters"
        page = self.server.run(self.clusters.store.range(f"{root}/{prefix}"))
        return [item.key.removeprefix(root) for item in page.items]

    def management(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Send a request of the administrator of the management cluster."""
        return self.send(method, path, body, Authorization=f"Bearer {self.server.token}", **headers)

    def request(
        self, access: AdministratorAccess, method: str, path: str, body: Any = None, **headers: str
    ) -> Answer:
        """Send a request of the administrator of a cluster to this cluster."""
        token = f"Bearer {access.token}"
        return self.send(
            method, f"/clusters/{access.name}{path}", body, **{"Authorization": token} | headers
        )

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Send a request as it is given."""
        data = None if body is None else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection = self._connection
        connection.request(method, path, data, {"Content-Type": "application/json"} | named)
        response = connection.getresponse()
        text = response.read().decode()
        is_json = response.headers.get_content_type() == "application/json"
        is_json = is_json and "watch=1" not in path
        return Answer(response.status, text, json.loads(text) if is_json else text)

    @functools.cached_property
    def _connection(self) -> http.client.HTTPSConnection:
        """A connection, which is opened again when it was closed."""
        url = urlsplit(self.server.url)
        context = ssl.create_default_context(cafile=self.server.ca)
        return http.client.HTTPSConnection(
            url.hostname or "", url.port, timeout=TIMEOUT_SECONDS, context=context
        )

    def wait(self, condition: Callable[[], object]) -> None:
        """Wait until a condition holds, which sends a request."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not condition():
            assert time.monotonic() < deadline
