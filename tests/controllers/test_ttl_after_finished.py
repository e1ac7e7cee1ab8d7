"""Jobs are deleted when their time to live after the finish has passed."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime

import pytest

from kapiserver.api.group import GroupVersion
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.user import APISERVER
from kapiserver.cluster import open_cluster
from kapiserver.controllers.deletion.ttl_after_finished import (
    TTLAfterFinishedController,
    expiry_of,
)
from kapiserver.controllers.manager import apiserver_context
from kapiserver.parts import Parts
from kapiserver.storage.cache.entry import ObjectKey
from tests.clock import ManualClock
from tests.controllers.waiting import until_gone
from tests.jobs import POD

JOBS = "/apis/batch/v1/namespaces/default/jobs"


def job(name, ttl=60):
    spec = {"template": POD}
    return {"metadata": {"name": name}, "spec": spec | {"ttlSecondsAfterFinished": ttl}}


def status(now, *types):
    """The status of a Job that finished at a time."""
    time = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    conditions = [{"type": each, "status": "True", "lastTransitionTime": time} for each in types]
    completion = {"completionTime": time} if "Complete" in types else {}
    return {"status": {"startTime": time, "conditions": conditions, **completion}}


COMPLETE, FAILED = ("SuccessCriteriaMet", "Complete"), ("FailureTarget", "Failed")


class Loop:
    """A server in memory with this controller alone, whose time a test moves."""

    def __init__(self, cluster, clock):
        self.cluster, self.clock, self.server = cluster, clock, cluster.server
        self.jobs = self.server.client(APISERVER, authorize=False).resource(
            "batch/v1", "jobs", namespace="default"
        )
        self.controller = TTLAfterFinishedController(apiserver_context(self.server))

    @property
    def timers(self):
        """The seconds until each timer for a Job is due."""
        return [
            timer.at - self.clock.now()
            for timer in self.clock.timers
            if not timer.cancelled and "add_after" in timer.callback.__qualname__
        ]

    async def create(self, name, ttl=60):
        await self.jobs.create(job(name, ttl))

    async def patch(self, name, patch, subresource=""):
        """Change a Job, and wait until the controller has reconciled it."""
        changed = await self.jobs.patch(name, patch, subresource=subresource)
        await self.until(lambda: self.seen(name) == changed)

    async def finish(self, name, *types):
        await self.patch(name, status(self.clock.now(), *types), subresource="status")

    async def delete(self, name):
        await self.jobs.delete(name, {"propagationPolicy": "Background"})
        await self.until(lambda: self.seen(name) is None)

    async def advance(self, seconds):
        self.clock.advance(seconds)
        await self.until(lambda: True)

    def seen(self, name):
        """The Job that the controller sees."""
        informer = self.server.stores.by_name(GroupVersion("batch", "v1"), "jobs").informer
        entry = informer.lister.get(ObjectKey("default", name))
        return None if entry is None else entry.tree()

    async def until(self, condition):
        """Wait for a condition, and until the controller has nothing to do."""
        async with asyncio.timeout(60):
            while not (condition() and self.controller.settled):  # noqa: ASYNC110 - it has no event
                await asyncio.sleep(0)

    async def deleted(self):
        """The names of the Jobs that are being deleted."""
        jobs = (await self.jobs.list())["items"]
        return {
            each["metadata"]["name"] for each in jobs if "deletionTimestamp" in each["metadata"]
        }


@contextlib.asynccontextmanager
async def running():
    clock = ManualClock()
    async with open_cluster(Config(), Parts(clock=clock)) as cluster:
        client = cluster.server.client(APISERVER, authorize=False)
        await client.resource("v1", "namespaces").create({"metadata": {"name": "default"}})
        loop = Loop(cluster, clock)
        loop.controller.start()
        try:
            yield loop
        finally:
            await loop.controller.stop()
            assert loop.timers == []


@pytest.mark.parametrize("types", [COMPLETE, FAILED])
def test_finished_jobs(types):
    """A finished Job is deleted with its Pods when it has expired, and not before."""

    async def run():
        async with running() as loop:
            await loop.create("a")
            await loop.advance(1000)
            assert loop.timers == []
            await loop.finish("a", *types)
            assert loop.timers == [60]
            await loop.advance(59)
            assert await loop.deleted() == set()
            await loop.advance(5)
            assert await loop.deleted() == {"a"}
            metadata = (await loop.jobs.get("a"))["metadata"]
            assert metadata["finalizers"] == ["foregroundDeletion"]
            observations = loop.server.metrics.controllers.job_deletion_seconds.values[""]
            assert (sum(observations.counts), observations.total) == (1, 4)

    asyncio.run(run())


def test_jobs_that_stay():
    """A Job without a time to live, or that has not finished, stays."""

    async def run():
        async with running() as loop:
            await loop.create("none", None)
            await loop.create("suspended")
            await loop.finish("none", *COMPLETE)
            await loop.finish("suspended", "Suspended")
            await loop.advance(10**9)
            assert await loop.deleted() == set()

    asyncio.run(run())


def test_changed_time_to_live():
    """Each Job has one timer, for its last time to live; a deleted Job has none."""

    async def run():
        async with running() as loop:
            for name in ("a", "b", "c"):
                await loop.create(name)
                await loop.finish(name, *COMPLETE)
            for ttl in (30, 90, 600):
                await loop.patch("a", {"spec": {"ttlSecondsAfterFinished": ttl}})
            await loop.patch("b", {"spec": {"ttlSecondsAfterFinished": None}})
            await loop.delete("c")
            assert loop.timers == [600]
            await loop.advance(599)
            assert await loop.deleted() == set()
            await loop.advance(1)
            assert await loop.deleted() == {"a"}

    asyncio.run(run())


@pytest.mark.parametrize("time", [None, "9999-12-31T23:59:59Z"])
def test_times_of_the_finish(time):
    """A Job whose finish has no time does not expire; the last year is no error."""
    conditions = [{"type": "Failed", "status": "True", "lastTransitionTime": time}]
    finished = {
        "spec": {"ttlSecondsAfterFinished": 2**31 - 1},
        "status": {"conditions": conditions},
    }
    assert (expiry_of(finished) is None) == (time is None)


def test_rights_and_dependents(make_server):
    """The controller's role lets it delete Jobs; the garbage collector deletes their dependents."""
    api = make_server().api
    created = api.post(JOBS, job("a", 0)).json
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "a"}
    reference |= {"uid": created["metadata"]["uid"], "blockOwnerDeletion": True}
    maps = "/api/v1/namespaces/default/configmaps"
    child = {"metadata": {"name": "child-of-job", "ownerReferences": [reference]}}
    assert api.post(maps, child).status == 201
    finished = status(datetime.now(UTC).timestamp() - 1, *COMPLETE)
    assert api.patch(f"{JOBS}/a/status", finished).status == 200
    until_gone(api, JOBS, "a")
    assert api.get(f"{maps}/child-of-job").status == 404
