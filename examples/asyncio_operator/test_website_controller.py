"""The controller and its tests share an event loop; the server has a thread of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from lightkube import ApiError, AsyncClient
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import ConfigMap
from website_controller import Website, WebsiteController

from kapiserver.testing import KubeClients, TestServer

Scenario = Callable[[Callable[[AsyncClient], Coroutine[Any, Any, None]]], None]


@pytest.fixture
def scenario(
    request: pytest.FixtureRequest, kube_client: KubeClients, kube_crds: Callable[..., object]
) -> Scenario:
    """A function that runs a coroutine while the controller runs; with the time of the server if
    the test uses the fixture kube_apiserver."""
    kube_crds(Path(__file__).parent / "crd.yaml")
    now = time.time
    if "kube_apiserver" in request.fixturenames:
        now = request.getfixturevalue("kube_apiserver").clock.now

    def run(test: Callable[[AsyncClient], Coroutine[Any, Any, None]]) -> None:
        async def run_with_controller() -> None:
            async with kube_client.lightkube_async() as client, controller(client):
                await asyncio.wait_for(test(client), 30)

        asyncio.run(run_with_controller())

    @asynccontextmanager
    async def controller(client: AsyncClient) -> AsyncIterator[None]:
        task = asyncio.create_task(WebsiteController(client, now).run())
        yield
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    return run


async def create(client: AsyncClient, name: str, **spec: Any) -> None:
    await client.create(Website(metadata=ObjectMeta(name=name), spec=spec))


async def page(client: AsyncClient, name: str) -> str | None:
    """Return the page of a Website; None if there is none."""
    try:
        return str((await client.get(ConfigMap, f"{name}-page")).data["index.html"])
    except ApiError as error:
        if error.status.code != 404:
            raise
        return None


async def wait_for_page(client: AsyncClient, name: str, expected: str | None) -> None:
    while await page(client, name) != expected:
        await asyncio.sleep(0.05)


def test_publishes_a_page(scenario: Scenario) -> None:
    """A Website gets a ConfigMap, which goes with it."""

    async def test(client: AsyncClient) -> None:
        await create(client, "shop", html="<h1>Shop</h1>")
        await wait_for_page(client, "shop", "<h1>Shop</h1>")
        await client.delete(Website, "shop")
        await wait_for_page(client, "shop", None)

    scenario(test)


@pytest.mark.parametrize(
    ("effect", "arguments"),
    [("respond", {"status": 500}), ("respond", {"status": 409, "after_write": True}), ("drop", {})],
)
def test_retries(
    scenario: Scenario, kube_apiserver: TestServer, effect: str, arguments: dict[str, Any]
) -> None:
    """The page is published although the server fails twice."""
    inject = getattr(kube_apiserver.faults, effect)
    fault = inject(**arguments, verb="patch", resource="configmaps", times=2)

    async def test(client: AsyncClient) -> None:
        await create(client, "shop", html="<h1>Shop</h1>")
        while (await client.get(Website, "shop")).status != {"page": "shop-page"}:
            await asyncio.sleep(0.05)
        assert await page(client, "shop") == "<h1>Shop</h1>"

    scenario(test)
    assert fault.injected == 2


def test_expires(scenario: Scenario, kube_apiserver: TestServer) -> None:
    """A Website is deleted when it is older than its ttlSeconds, and not before."""

    async def test(client: AsyncClient) -> None:
        await create(client, "shop", html="<h1>Shop</h1>", ttlSeconds=3600)
        await create(client, "blog", html="<h1>Blog</h1>")
        await wait_for_page(client, "shop", "<h1>Shop</h1>")
        await kube_apiserver.clock.advance_async("2h")
        await wait_for_page(client, "shop", None)
        assert await client.get(Website, "blog")

    scenario(test)
