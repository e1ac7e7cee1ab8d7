"""A cluster that exists, such as one of kind, in place of a test server.

Tests that need the controls of a test server cannot use it: clock, faults, history.
"""

from __future__ import annotations

import json
import secrets
import ssl
import tempfile
from collections.abc import AsyncIterator, Coroutine
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from kapiserver.apiserver.private_files import write_private
from kapiserver.apiserver.webhooks.credentials import ClientCredentials
from kapiserver.apiserver.webhooks.kubeconfig import cluster_context, read_cluster
from kapiserver.client import Client
from kapiserver.codecs import yaml
from kapiserver.testing.loop_thread import LoopThread

T = TypeVar("T")


class ExistingCluster:
    """The cluster of the current context of a kubeconfig; use it in `with`.

    kubeconfig      the file
    url             the URL of the API server
    token           the bearer token of the context's user, or ""
    ssl_context     the TLS settings, with the user's certificate
    ca_context      the TLS settings of other users, without a certificate

    Raises BadConfiguration for an unusable file; credential plugins are not supported.
    """

    def __init__(self, kubeconfig: Path) -> None:
        cluster, user = read_cluster(kubeconfig, purpose="kubeconfig")
        folder = kubeconfig.parent
        credentials = ClientCredentials(user, folder)
        self.kubeconfig = kubeconfig
        self.url: str = cluster["server"]
        kind, _, value = credentials.headers().get("Authorization", "").partition(" ")
        self.token = value if kind == "Bearer" else ""
        self.ssl_context: ssl.SSLContext | None = cluster_context(cluster, credentials, folder)
        nobody = ClientCredentials({}, folder)
        self.ca_context: ssl.SSLContext | None = cluster_context(cluster, nobody, folder)
        self._folder = Path()
        self._client: Client | None = None
        self._thread = LoopThread(self._connect(), name="kubernetes-client")
        self._stack = ExitStack()

    def __enter__(self) -> ExistingCluster:
        temporary = tempfile.TemporaryDirectory(prefix="kapiserver-")
        self._folder = Path(self._stack.enter_context(temporary))
        self._thread.start()
        self._stack.callback(self._thread.stop)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @asynccontextmanager
    async def _connect(self) -> AsyncIterator[None]:
        async with self.client() as self._client:
            yield

    def client(self) -> Client:
        """Return a client, for `async with` on any asyncio loop."""
        return Client(self.url, token=self.token, ssl_context=self.ssl_context)

    def internal_client(self) -> Client:
        """Return the client of this object's own loop; run its coroutines with `run`."""
        assert self._client is not None, "use it in `with`"
        return self._client

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on this object's own loop, and return its result. Raises its errors."""
        return self._thread.run(coroutine)

    def write_kubeconfig(self, namespace: str, *, token: str = "") -> Path:
        """Write a kubeconfig whose context names the namespace; return its path. It has the users
        of the cluster's kubeconfig, or the user with the token. Relative paths in it are made
        absolute. The file is deleted at the end of the block."""
        (config,) = yaml.decode_values(self.kubeconfig.read_bytes())
        if token:
            for each in config.get("users") or ():
                each["user"] = {"token": token}
        for each in config["contexts"]:
            if each["name"] == config["current-context"]:
                each["context"]["namespace"] = namespace
        for plural, singular in (("clusters", "cluster"), ("users", "user")):
            for each in config.get(plural) or ():
                _make_absolute(each.get(singular) or {}, self.kubeconfig.parent)
        user = f"-{secrets.token_hex(4)}" if token else ""
        path = self._folder / f"{namespace}{user}.kubeconfig"
        write_private(path, json.dumps(config).encode())  # JSON is YAML too
        return path


_PATHS = ("certificate-authority", "client-certificate", "client-key", "tokenFile")


def _make_absolute(settings: dict[str, Any], folder: Path) -> None:
    for name in _PATHS:
        if settings.get(name):
            settings[name] = str((folder / settings[name]).absolute())
