"""When logical clusters open and rest. The test moves the time."""

from __future__ import annotations

import asyncio
import gc
import weakref
from datetime import datetime

import pytest

from kapiserver.api.resource_client import StatusError
from kapiserver.clusters.service import AdministratorAccess
from tests.clusters.restkit import IDLE, START, Served, create, eventually, maps, serving
from tests.clusters.test_clusters import WIDGETS

DEFINITIONS = ("apiextensions.k8s.io/v1", "customresourcedefinitions")


def test_a_cluster_opens_and_rests() -> None:
    """A cluster is open from its first request until nobody has used it for the idle time; then a
    request opens it again, and its objects are there."""

    async def run() -> None:
        async with serving() as served:
            access = await served.clusters.create("a")
            assert served.clusters.open_count == 0
            async with served.client(access) as client:
                await create(client, "x")
                assert served.clusters.open_count == 1
                await served.pass_time(IDLE * 2 / 3)
                await maps(client).get("x")
                await served.pass_time(IDLE * 2 / 3)
                assert served.clusters.open_count == 1
                await served.pass_time(IDLE)
                await eventually(lambda: served.clusters.open_count == 0)
                assert (await maps(client).get("x"))["metadata"]["name"] == "x"
                assert served.clusters.open_count == 1
            assert "wakeTime" not in await served.status("a")

    asyncio.run(run())


@pytest.mark.slow
def test_a_watch_keeps_a_cluster_open() -> None:
    """A cluster does not rest while a client watches."""

    async def run() -> None:
        async with serving() as served:
            access = await served.clusters.create("a")
            async with served.client(access) as client:
                watch = maps(client).watch()
                first = asyncio.create_task(anext(watch))
                await eventually(lambda: served.clusters.open_count == 1)
                await served.pass_time(3 * IDLE)
                assert served.clusters.open_count == 1
                await create(client, "x")
                while (event := await first).object["metadata"].get("name") != "x":
                    first = asyncio.create_task(anext(watch))
                assert event.type == "ADDED"
                await watch.aclose()
            await served.pass_time(2 * IDLE)
            await eventually(lambda: served.clusters.open_count == 0)

    asyncio.run(run())


@pytest.mark.slow
def test_places() -> None:
    """With all places taken, an idle cluster makes room; while all are in use, others get 429."""

    async def run() -> None:
        async with serving(logical_cluster_max_open=2) as served:
            one, two, three = [await served.clusters.create(name) for name in ("a", "b", "c")]
            async with served.client(one) as first, served.client(two) as second:
                await create(first, "x")
                watch = maps(second).watch()
                event = asyncio.create_task(anext(watch))
                await eventually(lambda: served.clusters.open_count == 2)
                async with served.client(three) as third:
                    held = maps(third).watch()
                    held_event = asyncio.create_task(anext(held))
                    await eventually(lambda: not served.clusters.is_open("a"))
                    await eventually(lambda: served.clusters.is_open("c"))
                    with pytest.raises(StatusError) as caught:
                        await maps(first).get("x")
                    assert caught.value.code == 429
                    assert caught.value.reason == "TooManyRequests"
                    for task in (event, held_event):
                        task.cancel()
                        await asyncio.wait([task])
                    await watch.aclose()
                    await held.aclose()

    asyncio.run(run())


@pytest.mark.slow
def test_many_first_requests() -> None:
    """Requests that arrive together open a cluster once; those that give up cancel nothing."""

    async def run() -> None:
        async with serving() as served:
            access = await served.clusters.create("a")
            async with served.client(access) as client:
                tasks = [asyncio.create_task(maps(client).list()) for _ in range(20)]
                await asyncio.sleep(0)
                for task in tasks[:10]:
                    task.cancel()
                results = await asyncio.gather(*tasks, return_exceptions=True)
                assert [type(result) for result in results[10:]] == [dict] * 10
                assert served.clusters.open_count == 1

    asyncio.run(run())


@pytest.mark.slow
def test_a_deleted_cluster_that_is_in_use() -> None:
    """Deleting a cluster ends its watches, and later requests meet no cluster."""

    async def run() -> None:
        async with serving() as served:
            access = await served.clusters.create("a")
            async with served.client(access) as client:
                await create(client, "x")
                events = []

                async def watch() -> None:
                    async for event in maps(client).watch():
                        events.append(event)

                watching = asyncio.create_task(watch())
                await eventually(lambda: events)
                await served.clusters.delete("a")
                await watching
                with pytest.raises(StatusError) as caught:
                    await maps(client).list()
                assert caught.value.code == 404
            assert served.clusters.open_count == 0

    asyncio.run(run())


@pytest.mark.slow
def test_a_cluster_that_is_deleted_while_it_opens() -> None:
    """A request that waits for a cluster to open gets an answer when it is deleted meanwhile."""

    async def run() -> None:
        async with serving() as served:
            access = await served.clusters.create("a")
            async with served.client(access) as client:
                request = asyncio.create_task(maps(client).list())
                await eventually(lambda: served.clusters.open_count == 1)
                await served.clusters.delete("a")
                (result,) = await asyncio.gather(request, return_exceptions=True)
                assert isinstance(result, dict) or result.code in (404, 503)
            assert served.clusters.open_count == 0

    asyncio.run(run())


@pytest.mark.slow
def test_seats() -> None:
    """A cluster with many requests lets others through: of 80, about as many as it has seats end
    before a later request of another cluster. Without seats it is all of them."""

    async def run() -> None:
        async with serving(logical_cluster_max_requests_inflight=2) as served:
            one, two = await served.clusters.create("a"), await served.clusters.create("b")
            async with served.client(one) as quiet, served.client(two) as noisy:
                roles = noisy.resource("rbac.authorization.k8s.io/v1", "clusterroles")
                ended: list[int] = []

                async def flood(number: int) -> None:
                    await roles.list()
                    ended.append(number)

                await maps(quiet).list()
                for _ in range(2):  # at first the flood opens its connections
                    ended.clear()
                    tasks = [asyncio.create_task(flood(number)) for number in range(80)]
                    await asyncio.sleep(0)
                    await maps(quiet).list()
                    before = len(ended)
                    await asyncio.gather(*tasks)
                assert before <= 8

    asyncio.run(run())


def test_a_closed_cluster_is_freed() -> None:
    """When a cluster rests, nothing keeps its parts in memory, and no cycle of references waits for
    a collection: that of a server leaves old objects alone (`serving/process/memory.py`)."""
    paths = ("openapi/v2", "openapi/v3", "openapi/v3/apis/apps/v1", "apis", "metrics", "readyz")

    async def use(served: Served, access: AdministratorAccess) -> None:
        async with served.client(access) as client, served.http(access) as http:
            await create(client, "x")
            await client.resource(*DEFINITIONS).create(WIDGETS)
            async for _ in maps(client).watch():
                break
            for path in paths:
                assert (await http.get(path)).status_code == 200
            accounts = client.resource("v1", "serviceaccounts", namespace="default")
            review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
            token = await accounts.create(review, name="default", subresource="token")
            headers = {"Authorization": f"Bearer {token['status']['token']}"}
            assert (await http.get("apis", headers=headers)).status_code == 200
        await eventually(lambda: served.clusters.is_settled)

    async def run() -> None:
        async with serving() as served:
            access = await served.clusters.create("a")
            await use(served, access)
            (place,) = served.clusters._open_clusters._places.values()
            stores = weakref.ref(place.ready.result().cluster.server.stores)
            del place
            gc.disable()
            try:
                await served.pass_time(2 * IDLE)
                await eventually(lambda: served.clusters.open_count == 0)
                await eventually(lambda: stores() is None)
            finally:
                gc.enable()

    asyncio.run(run())


def test_metrics() -> None:
    """The metrics of the management cluster count open clusters, and why they were closed."""
    name = "kapiserver_logical_cluster"

    async def run() -> None:
        async with serving() as served, served.http() as http:

            async def lines() -> list[str]:
                text = (await http.get("metrics")).text
                return [line for line in text.splitlines() if line.startswith(name)]

            access = await served.clusters.create("a")
            async with served.client(access) as client:
                await maps(client).list()
            present = await lines()
            assert f"{name}s_open 1" in present
            assert f'{name}_open_duration_seconds_count{{result="success"}} 1' in present
            await served.pass_time(2 * IDLE)
            await eventually(lambda: served.clusters.open_count == 0)
            present = await lines()
            assert f"{name}s_open 0" in present
            assert f'{name}_closes_total{{reason="idle"}} 1' in present
            async with served.http(access) as tenant:
                assert name not in (await tenant.get("metrics")).text

    asyncio.run(run())


@pytest.mark.slow
def test_simulation() -> None:
    """In a cluster that simulates, pods run; heartbeats do not keep it open, and it wakes when a
    pod is due."""
    job = {
        "metadata": {"name": "long"},
        "spec": {
            "template": {
                "metadata": {"annotations": {"simulation.kapiserver.dev/run-seconds": "7200"}},
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "c", "image": "i"}],
                },
            }
        },
    }

    async def run() -> None:
        async with serving() as served:
            access = await served.clusters.create("a", nodes=2)
            async with served.client(access) as client:
                jobs = client.resource("batch/v1", "jobs", namespace="default")
                await jobs.create(job)
                await served.pass_time(60)
                assert (await jobs.get("long"))["status"]["ready"] == 1
                nodes = (await client.resource("v1", "nodes").list())["items"]
                assert len(nodes) == 2
            await served.pass_time(3 * IDLE)
            await eventually(lambda: served.clusters.open_count == 0)
            due = datetime.fromisoformat((await served.status("a"))["wakeTime"]).timestamp()
            assert 7000 < due - START < 7300
            served.clock.advance(due - served.clock.now())
            await eventually(lambda: served.clusters.open_count == 1)
            await served.pass_time(30)
            async with served.client(access) as client:
                jobs = client.resource("batch/v1", "jobs", namespace="default")
                assert (await jobs.get("long"))["status"]["succeeded"] == 1
            plain = await served.clusters.create("b")
            async with served.client(plain) as client:
                assert (await client.resource("v1", "nodes").list())["items"] == []

    asyncio.run(run())
