"""The base class of controllers, its event handlers and its indexes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest

from kapiserver.api.accessors import labels_of, name_of, uid_of
from kapiserver.api.group import CORE, GroupVersion
from kapiserver.api.resource_client import Client
from kapiserver.api.selectors import Requirement, Selection
from kapiserver.api.types import Tree
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.user import APISERVER
from kapiserver.cluster import open_cluster
from kapiserver.controllers.descriptor import ControllerDescriptor, Scope
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.event_handlers import (
    field_value,
    for_object,
    for_owner,
    label_value,
    owner_uids,
)
from kapiserver.controllers.manager import ControllerManager, apiserver_context
from kapiserver.parts import Parts
from kapiserver.storage.cache.entry import LARGE_OBJECT_BYTES, Entry, ObjectKey
from kapiserver.storage.objects.informer import Index, ObjectChange
from tests.clock import ManualClock

APPS = GroupVersion("apps", "v1")
TIMEOUT_SECONDS = 60


class Cluster:
    """A cluster without ports and without controllers, whose time a test moves."""

    def __init__(self, server: Server, clock: ManualClock) -> None:
        self.server = server
        self.clock = clock
        self.client: Client = server.client(APISERVER, authorize=False)
        self.config_maps = self.client.resource("v1", "configmaps", namespace="default")

    def context(self, name: str = "test") -> Any:
        return apiserver_context(self.server, name)

    async def create(self, name: str, **fields: Any) -> Tree:
        metadata = {"name": name, **fields.pop("metadata", {})}
        return await self.config_maps.create({"metadata": metadata, **fields})


@contextlib.asynccontextmanager
async def cluster() -> AsyncIterator[Cluster]:
    clock = ManualClock()
    async with (
        asyncio.timeout(TIMEOUT_SECONDS),
        open_cluster(Config(), Parts(clock=clock)) as opened,
    ):
        result = Cluster(opened.server, clock)
        namespaces = result.client.resource("v1", "namespaces")
        await namespaces.create({"metadata": {"name": "default"}})
        yield result


class Recorder(Controller[ObjectKey]):
    """Records the keys of ConfigMaps that it reconciles, and what it found."""

    def __init__(self, context: Any) -> None:
        super().__init__(context)
        self.keys: list[str] = []
        self.by_app = Index(label_value("app"))

    def set_up(self) -> None:
        self.config_maps = self.watch(CORE, "configmaps", for_object, self.by_app)

    async def reconcile(self, key: ObjectKey) -> None:
        self.keys.append(str(key))


@contextlib.asynccontextmanager
async def started(controller: Controller[Any]) -> AsyncIterator[None]:
    controller.start()
    try:
        yield
    finally:
        await controller.stop()


def test_each_object_is_reconciled() -> None:
    """Present objects, and those that are created, changed and deleted, are reconciled; after the
    stop none is, and no timer is left."""

    async def test() -> None:
        async with cluster() as here:
            await here.create("present")
            controller = Recorder(here.context())
            async with started(controller):
                await controller.wait_settled()
                assert controller.keys == ["default/present"]
                await here.create("new")
                await controller.wait_settled()
                await here.config_maps.patch("new", {"data": {"a": "b"}})
                await controller.wait_settled()
                await here.config_maps.delete("new")
                await controller.wait_settled()
                assert controller.keys == ["default/present", *["default/new"] * 3]
                controller.queue.add_after(ObjectKey("default", "later"), 5)
                controller.resync(5, lambda: [ObjectKey("default", "again")], delay=5)
            await here.create("late")
            here.clock.advance(10)
            await asyncio.sleep(0)
            assert controller.keys[4:] == []
            assert controller.settled

    asyncio.run(test())


def test_reconcile_waits_for_all_informers() -> None:
    """The first reconcile sees all objects of all informers, also of one that it watches itself."""

    class Watching(Recorder):
        async def reconcile(self, key: ObjectKey) -> None:
            namespaces = self.watch(CORE, "namespaces")
            await self.wait_synced()
            seen = len(self.config_maps.lister.list()), len(namespaces.lister.list())
            self.keys.append(str(seen))

    async def test() -> None:
        async with cluster() as here:
            for name in "abc":
                await here.create(name)
            controller = Watching(here.context())
            async with started(controller):
                await controller.wait_settled()
                assert controller.keys == ["(3, 1)"] * 3

    asyncio.run(test())


@pytest.mark.parametrize("size", [10, LARGE_OBJECT_BYTES])
def test_index_has_what_the_handler_saw(size: int) -> None:
    """When an object is reconciled, the index has it, also a large one that a thread decodes; an
    object whose value changes moves."""

    class Looking(Recorder):
        async def reconcile(self, key: ObjectKey) -> None:
            names = [entry.key.name for entry in self.by_app.get("default/web")]
            self.keys.append(",".join(names))

    async def test() -> None:
        async with cluster() as here:
            controller = Looking(here.context())
            async with started(controller):
                metadata = {"labels": {"app": "web"}}
                await here.create("a", metadata=metadata, data={"text": "x" * size})
                await controller.wait_settled()
                await here.config_maps.patch("a", {"metadata": {"labels": {"app": "db"}}})
                await controller.wait_settled()
                assert controller.keys == ["a", ""]

    asyncio.run(test())


def test_failures_are_retried() -> None:
    """An item whose reconcile raises is retried after the controller's delays, which double, and
    counted; the delays of an item begin again after a success. Other items go on."""

    class Failing(Recorder):
        min_retry_seconds = 1.0
        max_retry_seconds = 5.0
        fails = True

        async def reconcile(self, key: ObjectKey) -> None:
            await super().reconcile(key)
            if self.fails and key.name == "bad":
                raise ValueError("the test wants it so")

    async def test() -> None:
        async with cluster() as here:
            controller = Failing(here.context("failing"))
            async with started(controller):
                await here.create("bad")
                await controller.wait_settled()
                waits = []
                for _ in range(4):
                    [due] = [timer.at for timer in here.clock.timers if not timer.cancelled]
                    waits.append(due - here.clock.now())
                    here.clock.advance(waits[-1])
                    await controller.wait_settled()
                assert waits == [1, 2, 4, 5]
                await here.create("good")
                await controller.wait_settled()
                assert controller.keys == [*["default/bad"] * 5, "default/good"]
                controller.fails = False
                here.clock.advance(5)
                await controller.wait_settled()
                assert [timer for timer in here.clock.timers if not timer.cancelled] == []
            retries = here.server.metrics.workqueues.retries.values
            assert retries["failing"] == 5

    asyncio.run(test())


def test_workers() -> None:
    """As many items are reconciled at the same time as there are workers, each by one of them."""

    class Slow(Recorder):
        workers = 3
        most = running = 0

        def __init__(self, context: Any) -> None:
            super().__init__(context)
            self.gate = asyncio.Event()

        async def reconcile(self, key: ObjectKey) -> None:
            self.running += 1
            self.most = max(self.most, self.running)
            await self.gate.wait()
            self.running -= 1
            await super().reconcile(key)

    async def test() -> None:
        async with cluster() as here:
            controller = Slow(here.context())
            async with started(controller):
                for number in range(7):
                    await here.create(f"map-{number}")
                while controller.running < 3:  # noqa: ASYNC110 - it has no event
                    await asyncio.sleep(0)
                assert not controller.settled
                controller.gate.set()
                await controller.wait_settled()
                assert (controller.most, len(controller.keys)) == (3, 7)

    asyncio.run(test())


def test_delays() -> None:
    """Changes during the delay of `watch` are reconciled once; `resync` queues its items now and
    periodically."""

    class Delayed(Recorder):
        def set_up(self) -> None:
            self.watch(CORE, "configmaps", self.namespace, delay=2.0)
            self.resync(10.0, lambda: [ObjectKey("", "all")])

        def namespace(self, change: ObjectChange) -> Iterable[ObjectKey]:
            return (ObjectKey("", change.last.key.namespace),)

    async def test() -> None:
        async with cluster() as here:
            controller = Delayed(here.context())
            async with started(controller):
                for name in "abc":
                    await here.create(name)
                await controller.wait_settled()
                assert controller.keys == ["all"]
                for seconds, keys in ((2, ["default"]), (7, []), (1, ["all"]), (10, ["all"])):
                    controller.keys.clear()
                    here.clock.advance(seconds)
                    await controller.wait_settled()
                    assert controller.keys == keys

    asyncio.run(test())


def test_manager_waits_until_all_are_settled() -> None:
    """The manager is settled when no controller has anything left to do, also when the work of one
    causes work of another one."""

    class Copying(Recorder):
        """Copies each ConfigMap of one name to the next one, up to z."""

        async def reconcile(self, key: ObjectKey) -> None:
            following = chr(ord(key.name[0]) + 2)
            if following <= "z" and key.name != "kube-root-ca.crt":
                config_maps = self.context.resource("v1", "configmaps", namespace="default")
                await config_maps.create({"metadata": {"name": following}})

    class Odd(Copying):
        def set_up(self) -> None:
            self.watch(CORE, "configmaps", lambda change: self.only(change, 1))

        def only(self, change: ObjectChange, rest: int) -> Iterable[ObjectKey]:
            return for_object(change) if ord(change.last.key.name[0]) % 2 == rest else ()

    class Even(Odd):
        def set_up(self) -> None:
            self.watch(CORE, "configmaps", lambda change: self.only(change, 0))

    async def test() -> None:
        async with cluster() as here:
            registry = [
                ControllerDescriptor(
                    name=factory.__name__, factory=factory, user=APISERVER,
                    scope=scope, selectable=False,
                )
                for factory, scope in ((Odd, Scope.EVERY_SERVER), (Even, Scope.LEADER))
            ]  # fmt: skip
            manager = ControllerManager(here.server, ca_text="", registry=registry)
            await manager.start()
            await manager.wait_settled()
            for name in ("a", "b"):
                await here.create(name)
            assert not manager.settled
            await manager.wait_settled()
            assert manager.settled
            names = {name_of(each) for each in (await here.config_maps.list())["items"]}
            await manager.stop()
            assert names == set(map(chr, range(ord("a"), ord("z") + 1)))

    asyncio.run(test())


@pytest.mark.parametrize(
    ("is_first", "scopes"),
    [(True, ["EVERY_PROCESS", "EVERY_SERVER", "LEADER"]), (False, ["EVERY_PROCESS"])],
)
def test_first_worker(*, is_first: bool, scopes: list[str]) -> None:
    """Only the first worker of a server runs what a server does once, and creates namespaces."""
    started: list[str] = []

    class Starting(Recorder):
        """Records the names of controllers that start."""

        def set_up(self) -> None:
            started.append(self.context.name)

    async def test() -> None:
        async with cluster() as here:
            registry = [
                ControllerDescriptor(
                    name=scope.name, factory=Starting, user=APISERVER, scope=scope, selectable=False
                )
                for scope in Scope
            ]
            manager = ControllerManager(
                here.server, ca_text="", registry=registry, is_first_worker=is_first
            )
            await manager.start()
            await manager.stop()
            namespaces = await here.client.resource("v1", "namespaces").list()
            assert (len(namespaces["items"]) > 1) == is_first

    asyncio.run(test())
    assert started == scopes


# Event handlers and indexes.


def owner(name: str, kind: str = "ReplicaSet", version: str = "apps/v1", **fields: Any) -> Tree:
    uid = f"uid-of-{name}"
    return {"apiVersion": version, "kind": kind, "name": name, "uid": uid, **fields}


CONTROLLER = {"controller": True}
OWNERS: list[tuple[list[Tree], list[str]]] = [
    ([], []),
    ([owner("a")], []),
    ([owner("a", **CONTROLLER)], ["default/a"]),
    ([owner("a"), owner("b", **CONTROLLER)], ["default/b"]),
    ([owner("a", version="apps/v1beta2", **CONTROLLER)], ["default/a"]),
    ([owner("a", version="example.com/v1", **CONTROLLER)], []),
    ([owner("a", kind="StatefulSet", **CONTROLLER)], []),
]
"""Owner references, and the keys that `for_owner(APPS, "ReplicaSet")` maps them to."""


def test_owners_are_queued() -> None:
    """An object queues the owner that controls it, before and after a change of the owner; each
    owner's uid finds the object."""
    handler = for_owner(APPS, "ReplicaSet")

    async def test() -> None:
        async with cluster() as here:
            entries: list[Entry] = []
            informer = here.server.stores.by_name(CORE, "configmaps").informer
            subscription = informer.subscribe(lambda change: entries.append(change.last))
            for number, (owners, _) in enumerate(OWNERS):
                await here.create(f"map-{number}", metadata={"ownerReferences": owners})
            await subscription.wait_current()
            subscription.cancel()
            for entry, (owners, keys) in zip(entries, OWNERS, strict=True):
                assert list(map(str, handler(ObjectChange(None, entry)))) == keys
                assert list(map(str, handler(ObjectChange(entry, None)))) == keys
                assert list(owner_uids(entry)) == [each["uid"] for each in owners]
            moved = handler(ObjectChange(entries[2], entries[3]))
            assert list(map(str, moved)) == ["default/a", "default/b"]

    asyncio.run(test())


def test_indexes_and_selection() -> None:
    """Objects are found by a field, by a label, and by a selection."""

    async def test() -> None:
        async with cluster() as here:
            web = await here.create("a", metadata={"labels": {"app": "web"}}, immutable=True)
            await here.create("b", data={"node": "n1"})
            by_node, by_app = Index(field_value("data", "node")), Index(label_value("app"))
            informer = here.server.stores.by_name(CORE, "configmaps").informer
            for index in (by_node, by_app):
                with informer.subscribe(index.update) as subscription:
                    await subscription.wait_synced()
            assert [each.key.name for each in by_node.get("n1")] == ["b"]
            assert [uid_of(each.tree()) for each in by_app.get("default/web")] == [uid_of(web)]
            assert by_app.get("other/web") == []
            selection = Selection(labels=(Requirement("app", "in", ("web",)),))
            with informer.subscribe(lambda _: None) as subscription:
                await subscription.wait_synced()
                for namespace, count in (("", 1), ("default", 1), ("other", 0)):
                    entries = informer.lister.select(selection, namespace)
                    assert [labels_of(each.tree()) for each in entries] == [{"app": "web"}] * count
                assert informer.lister.get(ObjectKey("default", "a")) is not None
                assert informer.lister.get(ObjectKey("default", "")) is None

    asyncio.run(test())
