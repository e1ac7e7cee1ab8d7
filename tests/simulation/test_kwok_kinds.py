"""The kinds of kwok: their definitions, and watches of resources that come and go."""

from __future__ import annotations

import pytest

from kapiserver.apiserver.user import APISERVER
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.event_handlers import for_object
from kapiserver.controllers.loop.served_watch import ServedWatch
from kapiserver.controllers.manager import apiserver_context
from kapiserver.simulation.kwok.kinds import DEFINITIONS, KWOK
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.testing.server import TestServer

pytestmark = pytest.mark.anyio

STAGE = {
    "apiVersion": "kwok.x-k8s.io/v1alpha1",
    "kind": "Stage",
    "metadata": {"name": "ready"},
    "spec": {"resourceRef": {"apiGroup": "v1", "kind": "Pod"}, "selector": {}, "next": {}},
}


def client(server, version, name, namespace=""):
    internal = server.running.cluster.server.client(APISERVER, authorize=False)
    return internal.resource(version, name, namespace=namespace)


def definitions(server):
    return client(server, "apiextensions.k8s.io/v1", "customresourcedefinitions")


async def test_definitions():
    """A server that simulates serves all kinds; their schemas are structural."""
    async with TestServer(simulate=True) as server:
        await server.settle_async()
        for each in (await definitions(server).list())["items"]:
            conditions = {item["type"]: item["status"] for item in each["status"]["conditions"]}
            assert conditions == {"NamesAccepted": "True", "Established": "True"}
        names = [each["metadata"]["name"] for each in (await definitions(server).list())["items"]]
        assert sorted(names) == sorted(DEFINITIONS)
        created = await client(server, str(KWOK), "stages").create(STAGE)
        assert created["spec"]["weight"] == 0


async def test_deleted_definition():
    """A definition that a user deletes stays deleted."""
    async with TestServer(simulate=True) as server:
        await server.settle_async()
        await definitions(server).delete("stages.kwok.x-k8s.io")
        await server.clock.advance_async("1m")
        names = [each["metadata"]["name"] for each in (await definitions(server).list())["items"]]
        assert "stages.kwok.x-k8s.io" not in names


class Watcher(Controller):
    """Collects the names that are queued."""

    def set_up(self):
        self.seen = []
        self.stages = ServedWatch(self, KWOK, "stages", for_object)

    async def reconcile(self, key):
        self.seen.append((key.name, self.stages.get(key) is not None))


async def test_served_watch():
    """A watch begins with the definition, goes on after a change of it, and after its return."""
    async with TestServer() as server:
        watcher = Watcher(apiserver_context(server.running.cluster.server, "watcher"))
        watcher.start()
        stages = client(server, str(KWOK), "stages")

        async def settle():
            await server.settle_async()
            await watcher.wait_settled()

        async def seen():
            await settle()
            found, watcher.seen = set(watcher.seen), []
            return found

        assert watcher.stages.list() == ()
        for _ in range(2):
            await definitions(server).create(DEFINITIONS["stages.kwok.x-k8s.io"])
            await settle()
            await stages.create(STAGE)
            assert await seen() == {("ready", True)}
            change = {"spec": {"names": {"shortNames": ["st"]}}}
            await definitions(server).patch("stages.kwok.x-k8s.io", change)
            assert await seen() == {("ready", True)}
            assert [each.key for each in watcher.stages.list()] == [ObjectKey("", "ready")]
            await definitions(server).delete("stages.kwok.x-k8s.io")
            assert ("ready", False) in await seen()
        await watcher.stop()
