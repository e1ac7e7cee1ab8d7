"""StorageVersionMigrations rewrite what is stored in an old form."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kapiserver.api.types import Tree
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.user import APISERVER
from kapiserver.app import serve
from kapiserver.cluster import Cluster, open_cluster
from kapiserver.controllers.manager import apiserver_context
from kapiserver.controllers.storage_versions.migration_plan import (
    migrated_status,
    steps_of,
    with_condition,
)
from kapiserver.controllers.storage_versions.migrator import StorageVersionMigrator
from kapiserver.parts import Parts
from tests.clock import ManualClock

LEGACY = (
    b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"%s","namespace":"default",'
    b'"uid":"u-%s","creationTimestamp":"2020-01-01T00:00:00Z"},"data":{"a":"b"}}'
)
ROOT = "/registry/configmaps/default/"


def migration(name: str, *true: str, time: str = "2026-01-01T00:00:00Z") -> Tree:
    conditions = [{"type": each, "status": "True"} for each in true]
    return {
        "metadata": {"name": name, "creationTimestamp": time},
        "status": {"conditions": conditions},
    }


STEPS = [
    ([], ([], None, None)),
    ([migration("b"), migration("a")], ([], None, "a")),
    ([migration("a", time="2026-01-02T00:00:00Z"), migration("b")], ([], None, "b")),
    ([migration("a"), migration("b", "Running")], ([], "b", None)),
    ([migration("a"), migration("b", "Running", "Succeeded")], (["b"], None, "a")),
    ([migration("a", "Succeeded"), migration("b", "Failed")], ([], None, None)),
    ([migration("a", "Running", "Failed"), migration("b", "Running")], (["a"], "b", None)),
]


@pytest.mark.parametrize(("migrations", "expected"), STEPS)
def test_steps(migrations: list[Tree], expected: Any) -> None:
    """One migration of a resource runs at a time, the oldest one first."""

    def name(each: Tree | None) -> str | None:
        return each["metadata"]["name"] if each is not None else None

    steps = steps_of(migrations)
    planned = ([name(each) for each in steps.to_close], name(steps.running), name(steps.to_start))
    assert planned == expected


def test_condition_times() -> None:
    """The time of a condition changes with its status only."""
    condition = {"type": "Running", "status": "True", "reason": "R", "message": "one"}
    first = with_condition(migration("a"), condition, "t1")
    second = with_condition(first, {**condition, "message": "two"}, "t2")
    (set_condition,) = second["status"]["conditions"]
    assert (set_condition["message"], set_condition["lastTransitionTime"]) == ("two", "t1")
    third = with_condition(second, {**condition, "status": "False"}, "t3")
    assert third["status"]["conditions"][0]["lastTransitionTime"] == "t3"


@pytest.mark.parametrize(
    ("observed", "succeeded", "stored", "message"),
    [
        (2, True, ["v2"], "The migration has succeeded and the stored versions have been updated"),
        (1, True, None, "The migration has succeeded but the stored versions have not been updated "
         "due to a generation mismatch"),
        (2, False, None, "The migration has failed"),
    ],
)  # fmt: skip
def test_stored_versions(
    observed: int, succeeded: bool, stored: list[str] | None, message: str
) -> None:
    """Old versions are dropped only if all objects were rewritten and the definition is the
    same."""
    definition = {
        "metadata": {"generation": 2},
        "spec": {"versions": [{"name": "v1"}, {"name": "v2", "storage": True}]},
        "status": {"conditions": [{"type": "StorageMigrating", "observedGeneration": observed}]},
    }
    status = migrated_status(definition, succeeded=succeeded, now="now")
    assert status.get("storedVersions") == stored
    assert status["conditions"][0]["message"] == message


class Loop:
    """A server, and a client of it that may do everything."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.client = cluster.server.client(APISERVER, authorize=False)
        self.migrations = self.client.resource(
            "storagemigration.k8s.io/v1", "storageversionmigrations"
        )

    def advance(self, seconds: float) -> None:
        clock = self.cluster.server.clock
        assert isinstance(clock, ManualClock)
        clock.advance(seconds)

    async def migrate(self, name: str, resource: str, group: str = "") -> None:
        spec = {"resource": {"group": group, "resource": resource}}
        await self.migrations.create({"metadata": {"name": name}, "spec": spec})

    async def conditions(self, name: str) -> dict[str, tuple[str, str]]:
        status = (await self.migrations.get(name)).get("status") or {}
        return {
            each["type"]: (each["status"], each["message"])
            for each in status.get("conditions") or ()
        }

    async def finished(self, name: str, *, step: float = 0.0) -> dict[str, tuple[str, str]]:
        """The conditions of a migration when it is over; the clock moves while it is not."""
        async with asyncio.timeout(60):
            while True:
                conditions = await self.conditions(name)
                if conditions.get("Running", ("", ""))[0] == "False":
                    return conditions
                if step:
                    self.advance(step)
                await asyncio.sleep(0.01)


def run(test: Callable[[Loop], Awaitable[None]]) -> None:
    """Run a test with a server in memory that has this controller alone."""

    async def run_test() -> None:
        async with open_cluster(Config(), Parts(clock=ManualClock())) as cluster:
            loop = Loop(cluster)
            await cluster.server.custom_resources.start()
            namespaces = loop.client.resource("v1", "namespaces")
            await namespaces.create({"metadata": {"name": "default"}})
            controller = StorageVersionMigrator(apiserver_context(cluster.server))
            controller.start()
            try:
                await test(loop)
            finally:
                await controller.stop()
                cluster.server.custom_resources.stop()

    asyncio.run(run_test())


def run_served(test: Callable[[Loop], Awaitable[None]]) -> None:
    """Run a test with all controllers, which have the rights of their roles."""

    async def run_test() -> None:
        async with serve(Config.of(secure_port=None, insecure_port=None)) as running:
            await test(Loop(running.cluster))

    asyncio.run(run_test())


DONE = {
    "Running": ("False", "Migration completed"),
    "Succeeded": ("True", "Migration completed"),
}


def test_migration() -> None:
    """Objects in an old form are rewritten and newer ones left alone, by a controller with the
    rights of its role."""

    async def test(loop: Loop) -> None:
        kv = loop.cluster.kv
        for name in (b"a", b"b"):
            await kv.create(ROOT + name.decode(), LEGACY % (name, name))
        config_maps = loop.client.resource("v1", "configmaps", namespace="default")
        await config_maps.create({"metadata": {"name": "c"}, "data": {"a": "b"}})
        current = (await kv.get(ROOT + "c")).item
        await loop.migrate("first", "configmaps")
        assert await loop.finished("first") == DONE
        for name in ("a", "b"):
            item = (await kv.get(ROOT + name)).item
            assert item is not None
            assert item.value.startswith(b"k8s\x00")
            assert (await config_maps.get(name))["data"] == {"a": "b"}
        assert (await kv.get(ROOT + "c")).item == current
        status = (await loop.migrations.get("first"))["status"]
        assert int(status["resourceVersion"]) > 0

    run_served(test)


def definition(stored: str) -> Tree:
    schema = {"openAPIV3Schema": {"type": "object"}}
    versions = [
        {"name": name, "served": True, "storage": name == stored, "schema": schema}
        for name in ("v1", "v2")
    ]
    return {
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": versions,
        },
    }


async def until_served(loop: Loop) -> None:
    async with asyncio.timeout(60):
        while loop.cluster.server.scheme.custom.by_plural("example.com", "things") is None:  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0.01)


def test_custom_resources() -> None:
    """Custom objects are rewritten in the storage version, which alone is stored afterwards; a
    second migration waits for the first."""

    async def test(loop: Loop) -> None:
        definitions = loop.client.resource("apiextensions.k8s.io/v1", "customresourcedefinitions")
        await definitions.create(definition("v1"))
        await until_served(loop)
        things = loop.client.resource("example.com/v1", "things", namespace="default")
        await things.create({"kind": "Thing", "metadata": {"name": "a"}})
        await definitions.update_with_retry(
            "things.example.com", lambda each: {**each, "spec": definition("v2")["spec"]}
        )
        before = (await definitions.get("things.example.com"))["status"]["storedVersions"]
        assert before == ["v1", "v2"]
        await loop.migrate("first", "things", "example.com")
        await loop.migrate("second", "things", "example.com")
        assert await loop.finished("second") == DONE
        assert await loop.finished("first") == DONE
        item = (await loop.cluster.kv.get("/registry/example.com/things/default/a")).item
        assert item is not None
        assert b"example.com/v2" in item.value
        status = (await definitions.get("things.example.com"))["status"]
        assert status["storedVersions"] == ["v2"]
        (condition,) = [each for each in status["conditions"] if each["type"] == "StorageMigrating"]
        assert (condition["status"], condition["reason"]) == ("False", "MigrationSucceeded")

    run_served(test)


@pytest.mark.parametrize(
    ("resource", "problem"),
    [
        ("nothings", "resource does not exist in discovery"),
        ("componentstatuses", "resource does not exist in discovery"),
    ],
)
def test_resources_that_cannot_be_migrated(resource: str, problem: str) -> None:
    """A migration of a resource that is not stored fails after a minute, in which a definition may
    still come."""

    async def test(loop: Loop) -> None:
        await loop.migrate("first", resource)
        assert await loop.finished("first", step=5) == {
            "Running": ("False", "Migration completed"),
            "Failed": ("True", problem),
        }

    run(test)


def test_objects_that_cannot_be_written() -> None:
    """A migration fails with the error of an object that the server refuses to write."""

    async def test(loop: Loop) -> None:
        value = LEGACY.replace(b'"a":"b"', b'"not a key":"b"') % (b"a", b"a")
        await loop.cluster.kv.create(ROOT + "a", value)
        await loop.migrate("first", "configmaps")
        conditions = await loop.finished("first")
        status, message = conditions["Failed"]
        assert status == "True"
        assert message.startswith("1/1 not yet migrated. migration encountered unhandled error: ")

    run(test)
