"""The operator against a real API server.

Tests that use the fixture kube_apiserver inject faults or move the clock. The others also run
against a cluster: `pytest --kapiserver-cluster ~/.kube/config`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from lightkube import ApiError, Client
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import ConfigMap
from lightkube.types import PatchType
from website_operator import Website

from kapiserver.testing import KubeClients, TestServer

pytestmark = pytest.mark.usefixtures("operator")


@pytest.fixture
def client(kube_client: KubeClients) -> Client:
    return kube_client.lightkube()


def create(client: Client, name: str, **spec: Any) -> None:
    client.create(Website(metadata=ObjectMeta(name=name), spec=spec))


def page(client: Client, name: str) -> str:
    return client.get(ConfigMap, f"{name}-page").data["index.html"]


def published(client: Client, name: str) -> str | None:
    return (client.get(Website, name).status or {}).get("page")


def eventually(check: Callable[[], Any], expected: Any) -> None:
    """Wait until a call returns a value; 404 is None."""
    deadline = time.monotonic() + 20
    while True:
        try:
            value = check()
        except ApiError as error:
            if error.status.code != 404:
                raise
            value = None
        if value == expected:
            return
        assert time.monotonic() < deadline, value
        time.sleep(0.05)


def test_publishes_a_page(client: Client) -> None:
    """A Website gets a ConfigMap, which changes and goes with it."""
    create(client, "shop", html="<h1>Shop</h1>")
    eventually(lambda: page(client, "shop"), "<h1>Shop</h1>")
    eventually(lambda: published(client, "shop"), "shop-page")

    change = {"spec": {"html": "<h1>New</h1>"}}
    client.patch(Website, "shop", change, patch_type=PatchType.MERGE)
    eventually(lambda: page(client, "shop"), "<h1>New</h1>")

    client.delete(Website, "shop")
    eventually(lambda: page(client, "shop"), None)


@pytest.mark.parametrize("after_write", [False, True])
def test_retries(client: Client, kube_apiserver: TestServer, after_write: bool) -> None:
    """The page is published although the server fails twice, before or after it has written."""
    fault = kube_apiserver.faults.respond(
        500, verb="patch", resource="configmaps", times=2, after_write=after_write
    )
    create(client, "shop", html="<h1>Shop</h1>")
    eventually(lambda: published(client, "shop"), "shop-page")
    assert page(client, "shop") == "<h1>Shop</h1>"
    assert fault.injected == 2


def test_survives_a_broken_watch(client: Client, kube_apiserver: TestServer) -> None:
    """A Website that is created while the operator does not watch is published too."""
    with kube_apiserver.faults.end_watches(resource="websites"):
        create(client, "shop", html="<h1>Shop</h1>")
    eventually(lambda: page(client, "shop"), "<h1>Shop</h1>")


def test_expires(client: Client, kube_apiserver: TestServer) -> None:
    """A Website is deleted when it is older than its ttlSeconds, and not before."""
    create(client, "shop", html="<h1>Shop</h1>", ttlSeconds=3600)
    create(client, "blog", html="<h1>Blog</h1>")
    eventually(lambda: page(client, "shop"), "<h1>Shop</h1>")

    kube_apiserver.clock.advance("2h")
    eventually(lambda: page(client, "shop"), None)
    assert client.get(Website, "blog")
