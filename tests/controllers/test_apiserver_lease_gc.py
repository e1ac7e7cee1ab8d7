"""Expired Leases of API servers' identities are deleted."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.user import APISERVER
from kapiserver.cluster import open_cluster
from kapiserver.controllers.deletion.apiserver_lease_gc import (
    POLL_SECONDS,
    START_DELAY_SECONDS,
    APIServerLeaseGC,
)
from kapiserver.controllers.manager import apiserver_context
from kapiserver.parts import Parts
from tests.clock import ManualClock

VERSION = "coordination.k8s.io/v1"
IDENTITY = {"apiserver.kubernetes.io/identity": "kube-apiserver"}


def lease(name, spec, labels=IDENTITY):
    return {"metadata": {"name": name, "labels": labels}, "spec": spec}


def renewed(time, seconds=3600):
    return {"renewTime": time, "leaseDurationSeconds": seconds}


@pytest.fixture(scope="module")
def run_collector():
    """Run a test with a started collector, its clock, and a client of Leases by namespace."""

    async def run(test):
        clock = ManualClock()
        async with open_cluster(Config(), Parts(clock=clock)) as cluster:
            client = cluster.server.client(APISERVER, authorize=False)
            for name in ("kube-system", "other"):
                await client.resource("v1", "namespaces").create({"metadata": {"name": name}})
            collector = APIServerLeaseGC(apiserver_context(cluster.server))
            collector.start()
            try:
                async with asyncio.timeout(30):
                    await test(
                        clock,
                        lambda namespace: client.resource(VERSION, "leases", namespace=namespace),
                    )
            finally:
                await collector.stop()

    return lambda test: asyncio.run(run(test))


async def advance_until_deleted(clock, seconds, leases, count):
    """Advance the clock, and return the names of the Leases that are deleted then."""
    version = (await leases.list())["metadata"]["resourceVersion"]
    clock.advance(seconds)
    names = set()
    async with contextlib.aclosing(leases.watch(resource_version=version)) as events:
        while len(names) < count:
            event = await anext(events)
            assert event.type == "DELETED"
            names.add(event.object["metadata"]["name"])
    return names


def test_expired_leases(run_collector):
    """Leases that have expired or lack a time go; others stay, also those of other components and
    namespaces."""
    old, future = renewed("2001-01-01T00:00:00.000000Z"), renewed("9999-01-01T00:00:00.000000Z")
    no_time = {"leaseDurationSeconds": 3600}
    no_duration = {"renewTime": "9999-01-01T00:00:00.000000Z"}
    latest = renewed("9999-12-31T23:59:59.000000Z", 2**31 - 1)

    async def test(clock, leases):
        system, other = leases("kube-system"), leases("other")
        for name, spec in (("old", old), ("no-time", no_time), ("no-duration", no_duration)):
            await system.create(lease(name, spec))
        await system.create(lease("future", future))
        await system.create(lease("latest", latest))
        await system.create(lease("not-labelled", old, {}))
        await system.create(lease("labelled-otherwise", old, dict.fromkeys(IDENTITY, "other")))
        await other.create(lease("elsewhere", old))
        names = await advance_until_deleted(clock, START_DELAY_SECONDS, system, 3)
        assert names == {"old", "no-time", "no-duration"}
        assert {each["metadata"]["name"] for each in (await system.list())["items"]} == {
            "future", "latest", "not-labelled", "labelled-otherwise",
        }  # fmt: skip
        assert len((await other.list())["items"]) == 1

    run_collector(test)


def test_leases_that_expire_later(run_collector):
    """Each later check deletes what has expired since."""
    old = renewed("2001-01-01T00:00:00.000000Z")

    async def test(clock, leases):
        system = leases("kube-system")
        await system.create(lease("first", old))
        assert await advance_until_deleted(clock, START_DELAY_SECONDS, system, 1) == {"first"}
        await system.create(lease("second", old))
        assert await advance_until_deleted(clock, POLL_SECONDS, system, 1) == {"second"}

    run_collector(test)
