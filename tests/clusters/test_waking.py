"""How clusters that have work are woken: by the clock, by the next server, and after failures of
the store. The test moves the time."""

from __future__ import annotations

import asyncio
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from kapiserver.clusters.controller import WAKE_RETRY_SECONDS
from kapiserver.storage.errors import OutcomeUnknown
from kapiserver.storage.kv.contract import KV
from kapiserver.storage.sqlite.admin import backup
from tests.clusters.restkit import IDLE, STEP, create, eventually, maps, serving

MARKS = "/registry-clusters/open/"
CRON_JOB = {
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


def test_the_clock_wakes_a_cluster() -> None:
    """A cluster with a CronJob rests until the next run; the time is in its status."""

    async def run() -> None:
        async with serving(controllers=("*", "cronjob-controller")) as served:
            access = await served.clusters.create("a")
            async with served.client(access) as client:
                crons = client.resource("batch/v1", "cronjobs", namespace="default")
                await crons.create(CRON_JOB)
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
def test_a_cluster_that_cannot_be_woken(caplog: pytest.LogCaptureFixture) -> None:
    """A cluster that has work when all places are taken is opened when one is free. The log says
    once that it waits."""

    async def run() -> None:
        settings = {"controllers": ("*", "cronjob-controller"), "logical_cluster_max_open": 1}
        async with serving(**settings) as served:
            one, two = await served.clusters.create("a"), await served.clusters.create("b")
            async with served.client(one) as client:
                crons = client.resource("batch/v1", "cronjobs", namespace="default")
                await crons.create(CRON_JOB)
            await served.pass_time(2 * IDLE)
            await eventually(lambda: served.clusters.open_count == 0)
            async with served.client(two) as client:
                watch = maps(client).watch()
                event = asyncio.create_task(anext(watch))
                await eventually(lambda: served.clusters.is_open("b"))
                await served.pass_time(3600)
                assert not served.clusters.is_open("a")
                assert caplog.text.count("cluster a has work and cannot be opened yet") == 1
                event.cancel()
                await asyncio.wait([event])
                await watch.aclose()
            await served.pass_time(2 * WAKE_RETRY_SECONDS)
            await eventually(lambda: served.clusters.is_open("a"))

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
            assert (await served.clusters.store.range(MARKS)).items == []

    asyncio.run(run())


def fail_once(monkeypatch: pytest.MonkeyPatch, store: KV, method: str) -> list[str]:
    """Let the next write of a row that says which cluster is open fail, and return a list that gets
    its key."""
    write, failures = getattr(store, method), list[str]()

    async def fail(key: str, *arguments: Any, **options: Any) -> Any:
        if key.startswith(MARKS) and not failures:
            failures.append(key)
            raise OutcomeUnknown("the store has ended the connection")
        return await write(key, *arguments, **options)

    monkeypatch.setattr(store, method, fail)
    return failures


def test_a_store_that_fails_at_the_start_of_controllers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Controllers start, though the store did not answer when a cluster had just opened."""

    async def run() -> None:
        async with serving() as served:
            access = await served.clusters.create("a")
            failures = fail_once(monkeypatch, served.clusters.store, "create")
            async with served.client(access) as client:
                await client.resource("v1", "namespaces").create({"metadata": {"name": "n"}})
                await eventually(lambda: bool(failures))
                assert not served.clusters.is_settled
                await served.pass_time(STEP)
                accounts = client.resource("v1", "serviceaccounts", namespace="n")
                assert (await accounts.list())["items"]

    asyncio.run(run())


@pytest.mark.slow
def test_a_store_that_fails_when_a_cluster_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster whose rest the store did not take is opened again, and rests later."""

    async def run() -> None:
        async with serving() as served:
            access = await served.clusters.create("a")
            failures = fail_once(monkeypatch, served.clusters.store, "delete")
            async with served.client(access) as client:
                await create(client, "x")
            while not failures:
                await served.pass_time(STEP)
            await eventually(lambda: not served.clusters.open_count)
            await served.pass_time(WAKE_RETRY_SECONDS)
            await eventually(lambda: served.clusters.is_open("a"))
            await served.pass_time(2 * IDLE)
            await eventually(lambda: not served.clusters.open_count)
            assert not (await served.clusters.store.range(MARKS)).items

    asyncio.run(run())
