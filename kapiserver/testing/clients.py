"""Clients of a test server, one method for each client library.

The libraries are imported when a test asks for their client. The extra `testing` has only httpx.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kapiserver.testing.namespace import TestNamespace


class KubeClients:
    """Clients as the administrator, or as the user of a `token`; they use the test's namespace
    unless a call names another.

    The methods of synchronous libraries return a client that is closed with this object, and those
    of asynchronous libraries return a context manager for `async with` in the test. Every method
    raises ModuleNotFoundError if its library is not installed.
    """

    def __init__(self, namespace: TestNamespace, *, token: str = "") -> None:
        self._namespace = namespace
        self._token = token
        self._kubeconfig = str(namespace.kubeconfig)
        self._clients = ExitStack()

    def __enter__(self) -> KubeClients:
        return self

    def __exit__(self, *_: object) -> None:
        self._clients.close()

    def kubernetes(self) -> Any:
        """Return a `kubernetes.client.ApiClient` of the official library."""
        config = importlib.import_module("kubernetes.config")
        return self._clients.enter_context(config.new_client_from_config(self._kubeconfig))

    @asynccontextmanager
    async def kubernetes_asyncio(self) -> AsyncIterator[Any]:
        """Open a `kubernetes_asyncio.client.ApiClient`."""
        config = importlib.import_module("kubernetes_asyncio.config")
        async with await config.new_client_from_config(self._kubeconfig) as client:
            yield client

    def kr8s(self) -> Any:
        """Return a synchronous `kr8s.Api`."""
        with _any_version():
            api = importlib.import_module("kr8s").api(kubeconfig=self._kubeconfig)
        self._clients.callback(_close_kr8s, api)
        return api

    @asynccontextmanager
    async def kr8s_asyncio(self) -> AsyncIterator[Any]:
        """Open a `kr8s.asyncio.Api`."""
        kr8s = importlib.import_module("kr8s.asyncio")
        with _any_version():
            api = await kr8s.api(kubeconfig=self._kubeconfig)
        try:
            yield api
        finally:
            await _kr8s_session(api).aclose()

    def lightkube(self) -> Any:
        """Return a `lightkube.Client`."""
        client = importlib.import_module("lightkube").Client(config=self._lightkube_config())
        self._clients.callback(client.close)
        return client

    @asynccontextmanager
    async def lightkube_async(self) -> AsyncIterator[Any]:
        """Open a `lightkube.AsyncClient`."""
        client = importlib.import_module("lightkube").AsyncClient(config=self._lightkube_config())
        try:
            yield client
        finally:
            await client.close()

    def _lightkube_config(self) -> Any:
        return importlib.import_module("lightkube").KubeConfig.from_file(self._kubeconfig)

    def httpx(self) -> Any:
        """Return an `httpx.Client` whose base URL is the server's."""
        httpx = importlib.import_module("httpx")
        return self._clients.enter_context(httpx.Client(**self._httpx_settings()))

    @asynccontextmanager
    async def httpx_async(self) -> AsyncIterator[Any]:
        """Open an `httpx.AsyncClient` whose base URL is the server's."""
        httpx = importlib.import_module("httpx")
        async with httpx.AsyncClient(**self._httpx_settings()) as client:
            yield client

    def _httpx_settings(self) -> dict[str, Any]:
        server = self._namespace.server
        settings: dict[str, Any] = {"base_url": server.url, "trust_env": False}
        ssl_context = server.ca_context if self._token else server.ssl_context
        if ssl_context is not None:
            settings["verify"] = ssl_context
        if token := self._token or server.token:
            settings["headers"] = {"Authorization": f"Bearer {token}"}
        return settings


@contextmanager
def _any_version() -> Iterator[None]:
    """Ignore kr8s's warning of a server that is newer than it: with `-W error` it would raise, and
    leave its connections open."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Kubernetes version .* is not supported", UserWarning)
        yield


def _kr8s_session(api: Any) -> Any:
    """Return the HTTP client of an Api, which has no method that closes its connections."""
    return api._session


def _close_kr8s(api: Any) -> None:
    """Close the connections on the loop of kr8s's synchronous clients."""
    portal = importlib.import_module("kr8s._async_utils").Portal()
    portal.call(_kr8s_session(api).aclose)
