"""Controllers of declared classes: in the extension API server, with any client, in a test."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from aiohttp import ClientSession
from msgspec import Struct, field

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.metrics import WorkQueueMetrics
from kapiserver.apiserver.user import APISERVER
from kapiserver.client import Client
from kapiserver.extension import ApiServer, Object, ObjectMeta, Resource
from kapiserver.extension.clients.typed_client import Objects
from kapiserver.extension.controllers import (
    Controller,
    Manager,
    RunningControllers,
    owner_reference,
    reconciles,
)
from kapiserver.extension.controllers.health import HealthPort, parse_address
from kapiserver.testing.server import TestServer
from tests.clock import ManualClock
from tests.docs.blocks import ROOT

FINALIZER = "example.com/disk"


class PoolSpec(Struct):
    disks: int = 1


class PoolStatus(Struct):
    disks: int = 0


class Pool(Object):
    """A pool of disks."""

    spec: PoolSpec = field(default_factory=PoolSpec)
    status: PoolStatus | None = None


class Disk(Object):
    """A disk."""


pools = Resource(Pool, group="example.com")
disks = Resource(Disk, group="example.com")


@reconciles(Pool, owns=[Disk], finalizer=FINALIZER)
class PoolController(Controller[Pool]):
    """Creates the disks of pools; deletes a pool when the clock has moved a minute."""

    released: list[tuple[str, float]] = []

    async def reconcile(self, obj: Pool) -> float | None:
        if obj.spec.disks < 0:
            raise ValueError("a pool has no negative number of disks")
        disks = self.client(Disk, namespace=obj.metadata.namespace)
        mine = [
            each for each in self.informer(Disk).list(obj.metadata.namespace)
            if each.metadata.name.startswith(obj.metadata.name)
        ]  # fmt: skip
        for number in range(len(mine), obj.spec.disks):
            metadata = ObjectMeta(
                name=f"{obj.metadata.name}-{number}", owner_references=[owner_reference(obj)]
            )
            await disks.apply(Disk(metadata=metadata), manager=self.name)
        if obj.status != PoolStatus(disks=len(mine)):
            obj.status = PoolStatus(disks=len(mine))
            await self.objects.update_status(obj)
        return 3600.0

    async def finalize(self, obj: Pool) -> float | None:
        self.released.append((obj.metadata.name, self.clock.now()))
        return 60.0 if len(self.released) < 2 else None


@asynccontextmanager
async def _running(
    clock: ManualClock,
) -> AsyncIterator[tuple[Objects[Pool], Objects[Disk], RunningControllers]]:
    """Run the controller in its extension API server."""
    PoolController.released = []
    server = ApiServer([pools, disks], [PoolController])
    async with server.serve(Config.of(secure_port=None), clock=clock) as running:
        client = running.server.client(APISERVER, authorize=False)
        assert running.controllers is not None
        yield (
            Objects(client, Pool, namespace="default"),
            Objects(client, Disk, namespace="default"),
            running.controllers,
        )


def _pool(disks: int) -> Pool:
    return Pool(metadata=ObjectMeta(name="one"), spec=PoolSpec(disks=disks))


def test_life() -> None:
    """A controller sets a finalizer, follows what it owns, and releases."""

    async def run() -> None:
        clock = ManualClock()
        async with _running(clock) as (pools, disks, controllers):
            await pools.create(_pool(2))
            await controllers.wait_settled()
            pool = await pools.get("one")
            assert pool.metadata.finalizers == [FINALIZER]
            assert pool.status == PoolStatus(disks=2)
            (owner,) = (await disks.get("one-1")).metadata.owner_references
            assert (owner.kind, owner.uid, owner.controller) == ("Pool", pool.metadata.uid, True)

            await disks.delete("one-1")  # an owned object that is gone is made again
            await controllers.wait_settled()
            assert len(await disks.list()) == 2

            await pools.delete("one")
            await controllers.wait_settled()
            assert (await pools.get("one")).metadata.deletion_timestamp is not None
            clock.advance(60)
            await controllers.wait_settled()
            assert await pools.list() == []
            first, second = PoolController.released
            assert second[1] - first[1] == 60

    asyncio.run(asyncio.wait_for(run(), 60))


def test_delays() -> None:
    """A reconcile is repeated after the delay that it asks for, and with backoff after errors."""

    async def run() -> None:
        clock = ManualClock()
        async with _running(clock) as (pools, _, controllers):
            await pools.create(_pool(1))
            await controllers.wait_settled()
            (controller,) = controllers.controllers
            count = controller.reconciles
            clock.advance(3599)
            await controllers.wait_settled()
            assert controller.reconciles == count
            clock.advance(1)
            await controllers.wait_settled()
            assert controller.reconciles == count + 1

            await pools.patch("one", {"spec": {"disks": -1}})
            await controllers.wait_settled()
            count = controller.reconciles
            for seconds in (0.1, 0.2, 0.4):
                clock.advance(seconds - 0.01)
                await controllers.wait_settled()
                assert controller.reconciles == count
                clock.advance(0.01)
                await controllers.wait_settled()
                count += 1
                assert controller.reconciles == count

    asyncio.run(asyncio.wait_for(run(), 60))


class ConfigMap(Object):
    data: dict[str, str] = field(default_factory=dict)


config_maps = Resource(ConfigMap, group="", plural="configmaps")


@reconciles(ConfigMap, label_selector="greets=yes")
class Greeter(Controller[ConfigMap]):
    """Greets in the data of ConfigMaps."""

    async def reconcile(self, obj: ConfigMap) -> None:
        if "greeting" not in obj.data:
            obj.data["greeting"] = "hello"
            await self.objects.update(obj)
            await self.note(obj, "Greeted", "It says hello.")


def _config_map(name: str, **labels: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, labels=labels))


def test_in_a_cluster() -> None:
    """A controller runs with the internal client of a test server and its clock."""

    async def run() -> None:
        async with TestServer(tls=False) as server:
            client = server.internal_client()
            objects = Objects(client, ConfigMap, namespace="default")
            await objects.create(_config_map("one", greets="yes"))
            await objects.create(_config_map("two"))
            async with Manager([Greeter]).run(client, clock=server.clock) as running:
                await running.wait_settled()
                assert (await objects.get("one")).data == {"greeting": "hello"}
                assert (await objects.get("two")).data == {}
                (event,) = (await client.resource("v1", "events").list())["items"]
                assert (event["type"], event["reason"]) == ("Normal", "Greeted")
                assert event["source"] == {"component": "Greeter"}
                assert event["involvedObject"]["name"] == "one"
                assert event["involvedObject"]["kind"] == "ConfigMap"

    asyncio.run(asyncio.wait_for(run(), 60))


def test_leader_election() -> None:
    """The holder of the lease runs the controllers; another process follows when it stops."""

    async def run() -> None:
        async with TestServer(tls=False) as server:
            client = server.internal_client()
            objects = Objects(client, ConfigMap, namespace="default")
            lease = "default/greeter"
            manager, clock = Manager([Greeter]), ManualClock()
            async with AsyncExitStack() as stack:
                second = manager.run(client, clock=clock, lease=lease)
                async with manager.run(client, clock=clock, lease=lease) as leader:
                    await _until(lambda: leader.controllers)
                    follower = await stack.enter_async_context(second)
                    await objects.create(_config_map("one", greets="yes"))
                    await leader.wait_settled()
                    assert (await objects.get("one")).data == {"greeting": "hello"}
                    assert follower.controllers == ()
                clock.advance(2)
                await _until(lambda: follower.controllers)
                await objects.create(_config_map("two", greets="yes"))
                await follower.wait_settled()
                assert (await objects.get("two")).data == {"greeting": "hello"}

    asyncio.run(asyncio.wait_for(run(), 60))


def test_health_port() -> None:
    """The port says whether the program runs and has all objects, and shows metrics."""

    async def run() -> None:
        async with TestServer(tls=False) as server:
            metrics, controllers = WorkQueueMetrics(), Manager([Greeter])
            client, clock = server.internal_client(), server.clock
            await Objects(client, ConfigMap, namespace="default").create(
                _config_map("one", greets="yes")
            )
            async with controllers.run(client, clock=clock, metrics=metrics) as running:
                await running.wait_settled()
                is_ready = [True]
                port = HealthPort(lambda: running.is_ready and is_ready[0], metrics)
                async with port.listen("127.0.0.1:0") as url, ClientSession(url) as session:

                    async def get(path: str, method: str = "GET") -> tuple[int, str]:
                        async with session.request(method, path) as response:
                            return response.status, await response.text()

                    for path in ("/healthz", "/livez", "/readyz"):
                        assert await get(path) == (200, "ok")
                    is_ready[0] = False
                    text = "[-]informer-sync failed: not all objects are listed\n"
                    assert await get("/readyz") == (500, text)
                    status, text = await get("/metrics")
                    assert status == 200
                    assert 'workqueue_adds_total{name="Greeter"} ' in text
                    assert "process_cpu_seconds_total" in text
                    assert (await get("/other"))[0] == 404
                    assert (await get("/healthz", "POST"))[0] == 405

    asyncio.run(asyncio.wait_for(run(), 60))


@pytest.mark.parametrize("address", ["8081", "localhost:", ":x", ":70000"])
def test_bad_address(address: str) -> None:
    """An address that is none is refused."""
    with pytest.raises(ValueError, match="must be HOST:PORT or :PORT"):
        parse_address(address)


async def _until(condition: object) -> None:
    while not condition():  # type: ignore[operator]  # noqa: ASYNC110 - no event says so
        await asyncio.sleep(0)


def test_declarations() -> None:
    """A declaration that cannot work is refused at import."""

    class Unknown(Object):
        pass

    with pytest.raises(TypeError, match="no Resource declares the class Unknown"):
        reconciles(Unknown)
    with pytest.raises(TypeError, match="Lone needs both a finalizer and finalize, or neither"):

        @reconciles(Pool, finalizer=FINALIZER)
        class Lone(Controller[Pool]):
            pass

    class Plain(Controller[Pool]):
        pass

    with pytest.raises(TypeError, match="Plain lacks the decorator reconciles"):
        Manager([Plain])


PROGRAM = """
import sys
from kapiserver.extension.controllers import Manager
from tests.extension.test_controllers import Greeter
sys.exit(Manager([Greeter]).main())
"""


def test_program() -> None:
    """A program runs against the cluster of a kubeconfig, over TLS, until a signal."""
    with TestServer() as server:
        command = [sys.executable, "-c", PROGRAM, "--kubeconfig", server.kubeconfig]
        command += ["--leader-elect", "--namespace", "default"]
        command += ["--health-probe-bind-address", "127.0.0.1:0"]
        program = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)

        async def run() -> None:
            async with Client.from_kubeconfig(server.kubeconfig) as client:
                objects = client.objects(ConfigMap, namespace="default")
                await objects.create(_config_map("one", greets="yes"))
                async for event in objects.follow(fieldSelector="metadata.name=one"):
                    if event.object.data:
                        break

        try:
            asyncio.run(asyncio.wait_for(run(), 60))
        finally:
            program.send_signal(signal.SIGTERM)
            _, errors = program.communicate(timeout=60)
        assert (program.returncode, errors) == (0, "")


def test_program_without_a_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    """An unusable kubeconfig is one line on standard error."""
    assert Manager([Greeter]).main(["--kubeconfig", "/nothing"]) == 1
    assert capsys.readouterr().err.count("\n") == 1
