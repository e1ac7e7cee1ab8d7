"""Leader election: one of several servers over one store runs the controllers. The test moves the
clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from kapiserver.api.group import GroupVersion
from kapiserver.apiserver.config import Config
from kapiserver.cluster import Cluster, open_cluster
from kapiserver.controllers.defaults.bootstrap import create_system_namespaces
from kapiserver.controllers.loop.leader import (
    LEASE,
    LEASE_SECONDS,
    RENEW_DEADLINE_SECONDS,
    RENEW_SECONDS,
    LeaderElector,
    leases_of_controllers,
)
from kapiserver.parts import Parts
from kapiserver.storage.errors import Unavailable
from tests.clock import ManualClock, ManualTimer
from tests.storage.etcd_server import Member, running_member

TIMEOUT_SECONDS = 60.0
"""Seconds; more than any candidate needs for one step."""


@dataclass
class Election:
    """Candidates over one store, and a record of their starts and stops."""

    cluster: Cluster
    clock: ManualClock
    acts: list[str] = field(default_factory=list)
    leaders: dict[str, LeaderElector] = field(default_factory=dict)

    async def stand(self, name: str) -> None:
        """Add a candidate."""

        def act(action: str) -> Any:
            async def call() -> None:
                self.acts.append(f"{name} {action}")

            return call

        leases = leases_of_controllers(self.cluster.server)
        leader = LeaderElector(leases, self.clock, start=act("starts"), stop=act("stops"))
        self.leaders[name] = leader
        leader.start()
        await self._rest()

    async def end(self, name: str) -> None:
        """Stop a candidate."""
        await self.leaders.pop(name).stop()

    async def die(self, name: str) -> None:
        """Stop a candidate's renewals without a notice, as a crash does."""
        task = self.leaders.pop(name)._task
        assert task is not None
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def pass_time(self, seconds: float) -> None:
        """Advance the clock in steps of one renewal."""
        end_time = self.clock.time + seconds
        while self.clock.time < end_time:
            self.clock.advance(RENEW_SECONDS)
            await self._rest()

    async def _rest(self) -> None:
        """Wait until every candidate waits for its timer."""
        await self.wait_until(lambda: len(self.waking(RENEW_SECONDS)) >= len(self.leaders))

    def waking(self, seconds: float) -> list[ManualTimer]:
        """The timers that fire after a number of seconds."""
        at = self.clock.time + seconds
        return [timer for timer in self.clock.timers if timer.at == at and not timer.cancelled]

    async def wait_until(self, holds: Callable[[], bool]) -> None:
        """Run the event loop until a condition is true."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while not holds():  # noqa: ASYNC110 - it has no event
                await asyncio.sleep(0)

    async def lease(self) -> Any:
        """The Lease."""
        store = self.cluster.server.stores.by_name(
            GroupVersion("coordination.k8s.io", "v1"), "leases"
        )
        return (await store.get(LEASE)).tree()


@asynccontextmanager
async def election(config: Config | None = None) -> AsyncIterator[Election]:
    """An election over a store, in memory by default."""
    clock = ManualClock()
    async with open_cluster(config or Config(), Parts(clock=clock)) as cluster:
        await create_system_namespaces(cluster.server)
        new_election = Election(cluster, clock)
        yield new_election
        for name in list(new_election.leaders):
            await new_election.end(name)


def test_one_leads() -> None:
    """The first candidate leads as long as it renews its lease, and no other starts."""

    async def run() -> None:
        async with election() as election_run:
            await election_run.stand("one")
            await election_run.stand("two")
            await election_run.pass_time(3 * LEASE_SECONDS)
            assert election_run.acts == ["one starts"]
            assert (await election_run.lease())["spec"]["leaseTransitions"] == 0

    asyncio.run(run())


def test_owner_of_the_lease() -> None:
    """The Lease has managedFields, as one that kube-controller-manager writes."""

    async def run() -> None:
        async with election() as election_run:
            await election_run.stand("one")
            await election_run.pass_time(RENEW_SECONDS)
            (entry,) = (await election_run.lease())["metadata"]["managedFields"]
            assert entry["manager"] == "kube-controller-manager"
            assert "f:renewTime" in entry["fieldsV1"]["f:spec"]

    asyncio.run(run())


def test_lost_race() -> None:
    """A candidate that reads the lease before another one takes it does not lead."""

    async def run() -> None:
        async with election() as election_run:
            await election_run.stand("one")
            await election_run.end("one")
            leases = leases_of_controllers(election_run.cluster.server)
            elections = [
                LeaderElector(leases, election_run.clock, start=_nothing, stop=_nothing)
                for _ in range(2)
            ]
            results = await asyncio.gather(
                *(elector._attempt(elector._acquire, seconds=1) for elector in elections)
            )
            assert sorted(results) == [False, True]

    asyncio.run(run())


async def _nothing() -> None:
    pass


def test_stepping_down() -> None:
    """When the leader stops, it stops its work first, and another candidate leads after its next
    attempt."""

    async def run() -> None:
        async with election() as election_run:
            await election_run.stand("one")
            await election_run.stand("two")
            await election_run.end("one")
            assert (await election_run.lease())["spec"]["holderIdentity"] == ""
            await election_run.pass_time(RENEW_SECONDS)
            assert election_run.acts == ["one starts", "one stops", "two starts"]
            assert (await election_run.lease())["spec"]["leaseTransitions"] == 1

    asyncio.run(run())


def test_death() -> None:
    """When the leader crashes, another candidate leads after the lease has expired, and not
    before."""

    async def run() -> None:
        async with election() as election_run:
            await election_run.stand("one")
            await election_run.stand("two")
            await election_run.pass_time(LEASE_SECONDS)
            await election_run.die("one")
            await election_run.pass_time(LEASE_SECONDS - 2 * RENEW_SECONDS)
            assert election_run.acts == ["one starts"]
            await election_run.pass_time(3 * RENEW_SECONDS)
            assert election_run.acts == ["one starts", "two starts"]

    asyncio.run(run())


@pytest.mark.parametrize("error", [Unavailable("gone"), KeyError("spec")])
def test_failing_store(monkeypatch: Any, error: Exception) -> None:
    """A leader that cannot renew, whatever the error, stops before its lease expires, and leads
    again later."""

    async def run() -> None:
        async with election() as election_run:
            await election_run.stand("one")
            leader = election_run.leaders["one"]

            async def fail() -> bool:
                raise error

            with monkeypatch.context() as broken:
                broken.setattr(leader, "_acquire", fail)
                await election_run.pass_time(RENEW_DEADLINE_SECONDS - RENEW_SECONDS)
                assert election_run.acts == ["one starts"]
                await election_run.pass_time(RENEW_SECONDS)
                assert election_run.acts == ["one starts", "one stops"]
            await election_run.pass_time(RENEW_SECONDS)
            assert election_run.acts == ["one starts", "one stops", "one starts"]

    assert RENEW_DEADLINE_SECONDS + RENEW_SECONDS < LEASE_SECONDS
    asyncio.run(run())


def test_hanging_store() -> None:
    """A leader stops in time if its renewal gets no response, and leads again when etcd
    recovers."""

    async def run(member: Member) -> None:
        async with election(Config.of(storage=f"etcd:{member.url}")) as election_run:
            await election_run.stand("one")
            member.hang()
            try:
                election_run.clock.advance(RENEW_SECONDS)
                remaining = RENEW_DEADLINE_SECONDS - RENEW_SECONDS
                await election_run.wait_until(lambda: bool(election_run.waking(remaining)))
                election_run.clock.advance(remaining - 0.5)
                assert election_run.acts == ["one starts"]
                election_run.clock.advance(0.5)
                await election_run.wait_until(lambda: len(election_run.acts) > 1)
                assert election_run.acts == ["one starts", "one stops"]
            finally:
                member.resume()
            for _ in range(10):  # etcd may refuse at first, because it missed its own heartbeats
                await election_run.pass_time(RENEW_SECONDS)
                if len(election_run.acts) > 2:
                    break
            assert election_run.acts == ["one starts", "one stops", "one starts"]

    with running_member() as member:
        asyncio.run(run(member))
