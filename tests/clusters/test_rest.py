"""When logical clusters open, rest and wake. The test moves the time."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from kapiserver.api.resource_client import StatusError
from kapiserver.apiserver.config import Config
from kapiserver.app import serve
from kapiserver.client import Client, Resource
from kapiserver.clusters.service import AdministratorAccess, LogicalClusters
from kapiserver.parts import Parts
from kapiserver.storage.errors import OutcomeUnknown
from kapiserver.storage.kv.contract import Revision
from kapiserver.storage.sqlite.admin import backup
from tests.clock import ManualClock
from tests.clusters.test_clusters import WIDGETS

DEFINITIONS = ("apiextensions.k8s.io/v1", "customresourcedefinitions")
IDLE = 300.0
STEP = 10.0
START = datetime(2026, 1, 1, 12, 10, tzinfo=UTC).timestamp()


class Served:
    """A server with logical clusters whose clock the test moves."""

    def __init__(self, url: str, clusters: LogicalClusters, clock: ManualClock) -> None:
        self.url = url
        self.clusters = clusters
        self.clock = clock

    def client(self, access: AdministratorAccess) -> Client:
        """Return a client of a cluster, which has to be entered."""
        return Client(access.url, token=access.token)

    def http(self, access: AdministratorAccess | None = None) -> httpx.AsyncClient:
        """Return an HTTP client of a cluster, or of the server, which has to be entered."""
        headers = {} if access is None else {"Authorization": f"Bearer {access.token}"}
        url = self.url if access is None else access.url
        return httpx.AsyncClient(base_url=f"{url}/", headers=headers, timeout=30)

    async def status(self, name: str) -> Any:
        """Return the status of a Cluster."""
        async with Client(self.url) as client:
            resource = client.resource("clusters.kapiserver.dev/v1", "clusters")
            return (await resource.get(name))["status"]

    async def pass_time(self, seconds: float) -> None:
        """Let time pass, in steps, between which controllers do their work."""
        for _ in range(int(seconds // STEP)):
            self.clock.advance(STEP)
            await asyncio.sleep(0)
            await eventually(lambda: self.clusters.is_settled)


@asynccontextmanager
async def serving(**settings: Any) -> AsyncIterator[Served]:
    clock = ManualClock(START)
    defaults = {"secure_port": None, "insecure_port": 0, "enable_logical_clusters": True}
    async with serve(Config.of(**defaults | settings), Parts(clock=clock)) as running:
        assert running.clusters is not None
        yield Served(running.url, running.clusters, clock)


async def eventually(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds, which other tasks bring about."""
    async with asyncio.timeout(30):
        await asyncio.sleep(0)
        while not condition():  # noqa: ASYNC110 - there is no event for all that the tests wait for
            await asyncio.sleep(0.001)


def maps(client: Client) -> Resource:
    return client.resource("v1", "configmaps", namespace="default")


async def create(client: Client, name: str) -> None:
    await maps(client).create({"metadata": {"name": name}})


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


def test_the_clock_wakes_a_cluster() -> None:
    """A cluster with a CronJob rests until the next run; the time is in its status."""
    cron_job = {
        "metadata": {"name": "hourly"},
        "spec": {
            "schedule": "0 * * * *",
            "jobTemplate": {
                "spec": {
                    "template": {
                        "spec": {
                            "restartPolicy": "Never",
                            "containers": [{"name": "c", "image": "i"}],
                        }
                    }
                }
            },
        },
    }

    async def run() -> None:
        async with serving(controllers=("*", "cronjob-controller")) as served:
            access = await served.clusters.create("a")
            async with served.client(access) as client:
                crons = client.resource("batch/v1", "cronjobs", namespace="default")
                await crons.create(cron_job)
            await served.pass_time(2 * IDLE)
            await eventually(lambda: served.clusters.open_count == 0)
            wake_time = (await served.status("a"))["wakeTime"]
            assert wake_time == "2026-01-01T13:00:01Z"
            served.clock.advance(datetime.fromisoformat(wake_time).timestamp() - served.clock.now())
            await eventually(lambda: served.clusters.open_count == 1)
            async with served.client(access) as client:
                jobs = client.resource("batch/v1", "jobs", namespace="default")
                async with asyncio.timeout(30):
                    while not (await jobs.list())["items"]:
                        pass

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
def test_a_killed_server(tmp_path: Path) -> None:
    """The next server opens the clusters that were open when a server was killed, and no other
    one; when they rest, nothing says so any more."""

    async def run() -> None:
        store = tmp_path / "store.db"
        async with serving(storage=f"sqlite:{store}") as served:
            one, two = await served.clusters.create("a"), await served.clusters.create("b")
            for access in (one, two):
                async with served.client(access) as client:
                    await create(client, "x")
                await eventually(lambda: served.clusters.is_settled)
                if access is one:
                    await served.pass_time(2 * IDLE)
                    await eventually(lambda: served.clusters.open_count == 0)
            backup(store, tmp_path / "killed.db", lambda *_: None)
        async with serving(storage=f"sqlite:{tmp_path / 'killed.db'}") as served:
            await eventually(lambda: served.clusters.is_open("b"))
            assert not served.clusters.is_open("a")
            async with asyncio.timeout(30):
                while served.clusters.open_count:
                    await served.pass_time(IDLE)
            assert (await served.clusters.store.range("/registry-clusters/open/")).items == []

    asyncio.run(run())


def test_a_store_that_fails_at_the_start_of_controllers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Controllers start, though the store did not answer when a cluster had just opened."""

    async def run() -> None:
        async with serving() as served:
            access = await served.clusters.create("a")
            store, failures = served.clusters.store, []
            create_row = store.create

            async def fail_once(key: str, value: bytes, *, ttl: int = 0) -> Revision:
                if key.startswith("/registry-clusters/open/") and not failures:
                    failures.append(key)
                    raise OutcomeUnknown("the store has ended the connection")
                return await create_row(key, value, ttl=ttl)

            monkeypatch.setattr(store, "create", fail_once)
            async with served.client(access) as client:
                await client.resource("v1", "namespaces").create({"metadata": {"name": "n"}})
                await eventually(lambda: bool(failures))
                assert not served.clusters.is_settled
                await served.pass_time(STEP)
                accounts = client.resource("v1", "serviceaccounts", namespace="n")
                assert (await accounts.list())["items"]

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
