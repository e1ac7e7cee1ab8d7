"""A server and an operator that run a workload again and again, each time under another plan."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from kapiserver.api.resource_client import StatusError
from kapiserver.api.types import Tree
from kapiserver.apiserver.serving.process.memory import collecting_rarely
from kapiserver.exploring.history import History, ObjectRef, Request
from kapiserver.exploring.planning.plans import Plan
from kapiserver.exploring.planning.variation import parse_variation
from kapiserver.exploring.running.assignment import Assignment, Pace, Setup
from kapiserver.exploring.running.injecting.injector import Injector
from kapiserver.exploring.running.injecting.obstacles import Obstacles
from kapiserver.exploring.running.operators.in_process import serving_without_tls
from kapiserver.exploring.running.operators.instances import POLL_SECONDS, Instances
from kapiserver.exploring.running.recovery import Recovery
from kapiserver.exploring.running.results import forbidden_requests
from kapiserver.exploring.running.settling import Settling
from kapiserver.exploring.running.tracer import Trace, Tracer
from kapiserver.exploring.running.writes import Writes
from kapiserver.exploring.steps import (
    Advance,
    Settle,
    Step,
    Wait,
)
from kapiserver.testing.server import TestServer
from kapiserver.testing.state.memory_store import Snapshot

AGE_INTERVALS, AGE_SECONDS = 6, 600.0
"""The parts of the hour for which an operator is left alone."""
WATCH_SECONDS = 1.5
"""Time in which clients open their watches again; client-go waits for almost a second."""
PORT_IN_USE = "address already in use"
"""What programs write if another one listens on their port: the text of EADDRINUSE."""
BLOCKED_SECONDS = 0.02
"""Time between two looks at whether a workload that comes by HTTP waits for the operator."""


class _Checkpoint(Struct, frozen=True, eq=False):
    """What a plain run was like before a step, and which objects it had created."""

    snapshot: Snapshot
    trace: Trace
    objects: frozenset[ObjectRef]


class Session:
    """Runs plans one after the other on one server. `open_session` makes one."""

    def __init__(self, server: TestServer, setup: Setup, plain_url: str = "") -> None:
        self._server = server
        self._setup = setup
        self.tracer = Tracer(server.running.cluster.server)
        self.instances = Instances(server, self.tracer, setup.launcher, setup.user, plain_url)
        self.injector = Injector(self.tracer, self.instances, self, stale_reads=setup.stale_reads)
        self._settling = Settling(server, self.tracer, self.instances, self.injector)
        self._recovery = Recovery(server, self.tracer, self._settling, self.injector)
        self._writes = Writes(server, self.tracer)
        self._obstacles = Obstacles(server, self.tracer, self._writes)
        self.injector.has_http_workload = setup.has_http_workload
        self._watcher: asyncio.Task[None] | None = None
        self._clean: Snapshot | None = None
        self._checkpoints: dict[int, _Checkpoint] = {}
        self._pace = Pace()
        self._assignment = Assignment(plan=Plan(), pace=self._pace)
        self._varied: dict[ObjectRef, Tree] | None = None
        self._idle_requests: list[int] = []
        self._is_refused = False
        """Whether the server has refused a variation."""
        self._lacks_port = False
        """Whether a second instance could not listen where the first one does, on one machine."""

    @property
    def steps(self) -> Sequence[Step]:
        """The steps of the workload."""
        return self._setup.steps

    async def install(self) -> None:
        """Load what an administrator installs. Raises OSError, ValueError, StatusError."""
        kv = self._server.running.cluster.kv
        kv.watch("", after=await kv.current_revision(), sink=self.tracer)
        self._server.faults.interceptor = self.injector
        if self._setup.sources:
            await self._server.state.load_async(*self._setup.sources)
        self._clean = await self._server.state.snapshot_async()

    async def run(self, assignment: Assignment) -> History:
        """Run the workload under a plan and return what happened. Raises OSError if the operator
        cannot be started, and ValueError for a step that names an unknown kind."""
        await self.begin(assignment)
        try:
            if not assignment.begins_without_operator:
                await self.launch()
            return await self.finish(await self._run_steps(assignment.steps or self._setup.steps))
        finally:
            await self._end_run()

    async def begin(self, assignment: Assignment) -> None:
        """Begin a run, without an operator."""
        checkpoint = self._checkpoints.get(assignment.first_step)
        earlier = Trace() if checkpoint is None else checkpoint.trace
        await self._server.reset_async(self._clean if checkpoint is None else checkpoint.snapshot)
        self.tracer.begin(earlier)
        self.injector.begin(assignment.plan, assignment.names.normalise, earlier.requests)
        self._assignment, self._pace = assignment, assignment.pace_of_plan
        self._varied = None
        self._idle_requests.clear()
        self._obstacles = Obstacles(self._server, self.tracer, self._writes)
        self._is_refused = self._lacks_port = False
        self._settling.begin(self._pace, assignment.tracebacks)
        self._recovery.begin(self._pace, self._clean)
        plan = assignment.plan
        earlier_version = self._setup.earlier_version if plan.has("upgrade") else None
        self.instances.begin(earlier_version, self._pace.watches, plan.expiring)

    async def launch(self) -> None:
        """Start the first instance of the operator; return when it has settled."""
        await self.instances.launch(self.instances.new_number())
        await self._settling.settle()
        if self._setup.has_http_workload:
            self._watcher = asyncio.create_task(self._end_what_blocks())

    async def _end_what_blocks(self) -> None:
        """End what lasts whenever a workload that comes by HTTP may wait for the operator: such a
        workload does not say that it waits."""
        while True:
            await asyncio.sleep(BLOCKED_SECONDS)
            if await self._settling.rest_until(self.tracer.rested + self._pace.quiet):
                await self.injector.on_quiet(is_blocked=True)

    async def finish(self, outcome: Mapping[str, Any]) -> History:
        """End a run when the operator has settled, and return what happened. `outcome` has fields
        of the history."""
        settled = await self._settling.settle()
        if self._setup.has_http_workload:
            await self.injector.end_workload()
            settled = await self._settling.settle()
        final = await self._recovery.objects(self._assignment.expected)
        await self._end_run()
        history = structs.replace(self.tracer.history(), **outcome)
        history.output, history.varied = self.instances.output, self._varied
        runs_twice = any(map(self._assignment.plan.has, ("overlap", "takeover")))
        self._lacks_port = runs_twice and PORT_IN_USE in history.output.lower()
        history.settled, history.final = settled, final
        history.idle_requests = tuple(self._idle_requests)
        history.forbidden = forbidden_requests(self._server, self.instances.user, history)
        return history

    async def _end_run(self) -> None:
        if self._watcher is not None:
            self._watcher.cancel()
            self._watcher = None
        await self.instances.end()
        self.tracer.rested = 0.0  # nobody rests between two runs

    @property
    def is_pending(self) -> bool:
        """Whether the points of the last plan did not come, the server refused its variation, or a
        second instance found a port of the first one in use."""
        return bool(self.injector.pending) or self._is_refused or self._lacks_port

    @property
    def is_in_process(self) -> bool:
        """Whether the operator runs in this process, so that its time can be skipped."""
        return self.instances.launcher is not None and self.instances.launcher.is_in_process

    @property
    def longest_rest(self) -> float:
        """How long an operator waited before it went on, in seconds of its time."""
        return self.tracer.longest_rest

    @property
    def checkpoints(self) -> AbstractSet[int]:
        """The steps with which a run may begin, because a plain run saved its state there."""
        return self._checkpoints.keys()

    async def record(self, path: Path, name: str) -> None:
        """Write a recording of the last run, for `kapiserver replay`. Raises OSError."""
        self._server.record(path, test=name)

    # Steps.

    async def _run_steps(self, steps: Sequence[Step]) -> dict[str, Any]:
        """Run the steps; return the fields of the history that say why they did not reach their
        end."""
        first = self._assignment.first_step
        for index, step in enumerate(steps[first:], first):
            await self._save_checkpoint(index)
            await self.injector.before_step(index)
            self.tracer.mark(str(step), index)
            try:
                await self._perform_or_retry(step)
                if isinstance(step, Settle):
                    await self._recover(index + 1)
            except (AssertionError, StatusError) as error:
                text = f"step {index + 1} ({step}) failed: {error}"
                return {"unreached": text, "refused": isinstance(error, StatusError)}
            if self._settling.is_endless:
                return {}
        await self._settling.settle()
        await self._save_checkpoint(len(steps))
        await self.injector.before_step(len(steps))
        return {}

    async def _save_checkpoint(self, index: int) -> None:
        """Save the state before a step of the first plain run, if the operator has settled."""
        is_plain = not self._assignment.plan.injections and self._assignment.steps is None
        if is_plain and index and index not in self._checkpoints and self._settling.has_settled:
            snapshot = await self._server.state.snapshot_async()
            # A new leader must not wait for the Lease of one that is gone.
            items = [item for item in snapshot.items if not self.tracer.is_lease(item.key)]
            snapshot = structs.replace(snapshot, items=items)
            trace, objects = self.tracer.trace(), self.tracer.created_objects()
            self._checkpoints[index] = _Checkpoint(snapshot, trace, objects)

    async def _perform_or_retry(self, step: Step) -> None:
        """Perform a step. If the server refuses it under a plan, end what the plan holds back, and
        try again when the operator has settled: the step may need what the operator does late.
        Raises AssertionError, StatusError."""
        try:
            await self._perform(step)
        except StatusError:
            if not self._assignment.plan.injections:
                raise
            await self.injector.on_quiet(is_blocked=True)
            await self._settling.settle()
            await self._perform(step)

    async def _perform(self, step: Step) -> None:
        match step:
            case Wait():
                await self._recovery.wait(step)
            case Settle():
                await self._settling.settle()
            case Advance(seconds=seconds):
                await self._server.clock.advance_async(seconds)
            case _:
                await self._writes.perform(step)

    async def _recover(self, index: int) -> None:
        """Wait until the objects are there that a plain run had before a step. A workload that
        settles waits for an operator that tries again."""
        checkpoint = self._checkpoints.get(index)
        if checkpoint is not None:
            normalise = self._assignment.names.normalise
            await self._recovery.wait_for_objects(checkpoint.objects, normalise)

    # What an injector asks for: a Director.

    def take_over(self, instance: int) -> None:
        """Pause an instance until another one works in its place; return at once."""
        self.injector.gates.pause(instance)
        self.instances.pause(instance)
        self.instances.begin_soon(self._take_over(instance))

    async def _take_over(self, paused: int) -> None:
        loop, instances = asyncio.get_running_loop(), self.instances
        number = instances.new_number()
        deadline = loop.time() + self._pace.settle
        await instances.launch(number)
        while instances.is_running and loop.time() < deadline:
            passed = await instances.rest(self._pace.quiet)
            self.tracer.rested += passed
            if self.tracer.has_lease(number) and self.tracer.rested >= self._pace.quiet:
                break
            await asyncio.sleep(POLL_SECONDS)
        self.injector.gates.resume(paused)
        instances.resume(paused)

    async def write_as_other(self, reference: ObjectRef) -> None:
        """Change an object as another writer does."""
        await self._writes.annotate_as_other(reference)

    async def vary(self, text: str) -> None:
        """Make the change of a variation, and undo it."""
        variation = parse_variation(text)
        reference = variation.object
        client = self._writes.client(reference)
        try:
            obj = await client.get(reference.name)
            await self._writes.update(reference, variation.changed(obj))
        except StatusError:
            self._is_refused = True
            return
        await self._settling.settle()
        self._varied = await self._recovery.objects(self._assignment.varied)
        current = await client.get(reference.name)
        await self._writes.update(reference, current | {"spec": obj["spec"]})
        await self._settling.settle()

    async def jump(self, seconds: float) -> None:
        """Move the server's clock forward."""
        await self._server.clock.advance_async(seconds)

    async def age(self) -> None:
        """Let an hour of the server's clock pass, and count the operator's requests meanwhile. A
        server ends watches after five to ten minutes, which clients and servers measure by their
        own time."""
        for _ in range(AGE_INTERVALS):
            before = self.tracer.operator_requests
            await self.jump(AGE_SECONDS)
            self.tracer.mark("ten minutes have passed, and the server ends watches")
            self._server.faults.end_watches(user=self.instances.user).remove()
            rested = 0.0
            while rested < WATCH_SECONDS:
                rested += max(POLL_SECONDS, await self.instances.rest(WATCH_SECONDS - rested))
            await self._settling.settle()
            self._idle_requests.append(self.tracer.operator_requests - before)

    def expire_credentials(self) -> None:
        """Let the operator's credentials expire. Servers end watches after some minutes, so that an
        operator must show its credentials again."""
        self.instances.kubeconfigs.renew()
        self._server.faults.end_watches(user=self.instances.user).remove()

    async def obstruct(self, action: str, request: Request) -> None:
        """Make the server refuse writes that are like a request, in the way of an action."""
        await self._obstacles.put(action, request, self.instances.user)

    async def clear_obstacles(self) -> None:
        """Let the server accept all writes again."""
        await self._obstacles.clear()

    def expire_watches(self, resource: str) -> None:
        """End the operator's watches of a resource with 410 Expired."""
        self._server.faults.expire_watches(resource=resource, user=self.instances.user).remove()


@asynccontextmanager
async def open_session(setup: Setup) -> AsyncIterator[Session]:
    """Start a server for a session. Raises OSError, ValueError, StatusError for what cannot be
    installed."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(TestServer(**setup.settings))
        plain_url = ""
        if setup.launcher is not None and setup.launcher.is_in_process:
            plain_url = await stack.enter_async_context(serving_without_tls(server))
        session = Session(server, setup, plain_url)
        await session.install()
        with collecting_rarely():
            yield session
