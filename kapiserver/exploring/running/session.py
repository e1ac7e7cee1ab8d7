"""A server and an operator that run a workload again and again, each time under another plan."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import Context
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from kapiserver.api.resource_client import StatusError
from kapiserver.api.types import Tree
from kapiserver.exploring.history import History, ObjectRef, Request
from kapiserver.exploring.judging.states import Expectation
from kapiserver.exploring.names import Names
from kapiserver.exploring.planning.plans import Plan
from kapiserver.exploring.planning.variation import parse_variation
from kapiserver.exploring.running.injector import Injector
from kapiserver.exploring.running.obstacles import Obstacles
from kapiserver.exploring.running.programs import Launcher, Program
from kapiserver.exploring.running.results import forbidden_requests, read_state
from kapiserver.exploring.running.retries import MAX_RETRY_SECONDS, seconds_to_retry
from kapiserver.exploring.running.tracer import Tracer
from kapiserver.exploring.running.writes import Writes
from kapiserver.exploring.steps import (
    Advance,
    Settle,
    Step,
    Wait,
)
from kapiserver.testing.server import TestServer
from kapiserver.testing.state.memory_store import Snapshot

START_SECONDS = 30.0
"""Time in which an operator must send its first request."""
POLL_SECONDS = 0.005
AGE_INTERVALS, AGE_SECONDS = 6, 600.0
"""The parts of the hour for which an operator is left alone."""
WATCH_SECONDS = 1.5
"""Time in which clients open their watches again; client-go waits for almost a second."""
MAX_RESTARTS = 3
"""How often an operator that exits is started again in one run."""
OPERATOR_USER = "operator"


class Pace(Struct, frozen=True, kw_only=True):
    """How long a run waits, in real seconds.

    quiet       without activity, after which the operator has settled
    settle      at most until the operator has settled
    patience    longer at the end, for a state that may still become the expected one; 0: a plain
                run, which waits as long as its steps say
    watches     the number of watches that an operator opens when it starts
    """

    quiet: float = 1.0
    settle: float = 30.0
    patience: float = 0.0
    watches: int = 0


class Setup(Struct, frozen=True, kw_only=True):
    """What all runs of a session have in common.

    sources     files and folders of what an administrator installs: definitions, roles
    user        the user that the operator is; "": an administrator
    simulate    whether there are nodes and pods
    stale_reads whether all reads of a stale view are old
    launcher            starts the operator; None if somebody else sets that of the session
    has_http_workload   whether a test sends the workload's requests, in place of the steps
    earlier_version     starts the version of the operator before an upgrade
    """

    launcher: Launcher | None = None
    steps: Sequence[Step] = ()
    sources: Sequence[str] = ()
    user: str = ""
    simulate: bool = False
    stale_reads: bool = False
    earlier_version: Launcher | None = None
    has_http_workload: bool = False


class Assignment(Struct, frozen=True, kw_only=True):
    """What a session is to run.

    names       makes names that all runs have
    expected    the state that the run should reach, for which it waits
    varied      the state that it should reach after a variation
    steps       the steps in place of those of the setup
    """

    plan: Plan
    pace: Pace
    names: Names = Names()
    expected: Expectation | None = None
    varied: Expectation | None = None
    steps: Sequence[Step] | None = None


class Session:
    """Runs plans one after the other on one server. `open_session` makes one."""

    def __init__(self, server: TestServer, setup: Setup) -> None:
        self._server = server
        self._setup = setup
        api_server = server.running.cluster.server
        self.tracer = Tracer(api_server)
        self.injector = Injector(self.tracer, self, stale_reads=setup.stale_reads)
        self._writes = Writes(server, self.tracer)
        self._obstacles = Obstacles(server, self.tracer, self._writes)
        self.injector.has_http_workload = setup.has_http_workload
        self.launcher = setup.launcher
        """Starts the next instance."""
        self._watcher: asyncio.Task[None] | None = None
        self._programs: dict[int, Program] = {}
        self._tokens: list[str] = []
        self._outputs: list[str] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._number = 0
        self._clean: Snapshot | None = None
        self._pace = Pace()
        self._is_running = False
        self._assignment = Assignment(plan=Plan(), pace=self._pace)
        self._varied: dict[ObjectRef, Tree] | None = None
        self._idle_requests: list[int] = []

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
            await self.launch()
            return await self.finish(await self._run_steps(assignment.steps or self._setup.steps))
        finally:
            await self._end_run()

    async def begin(self, assignment: Assignment) -> None:
        """Begin a run, without an operator."""
        await self._server.reset_async(self._clean)
        self.tracer.begin()
        self.injector.begin(assignment.plan, assignment.names.normalise)
        self._assignment, self._pace = assignment, assignment.pace
        self._outputs.clear()
        self._number = self._restarts = 0
        self._is_running = True
        self._varied = None
        self._idle_requests.clear()
        self._obstacles = Obstacles(self._server, self.tracer, self._writes)
        self.launcher = self._setup.launcher
        if self._setup.earlier_version is not None and assignment.plan.has("upgrade"):
            self.launcher = self._setup.earlier_version

    async def launch(self) -> None:
        """Start the first instance of the operator; return when it has settled."""
        await self._launch(self._new_number())
        await self._settle()
        if self._setup.has_http_workload:
            self._watcher = asyncio.create_task(self._end_what_blocks())

    async def _end_what_blocks(self) -> None:
        """End what lasts whenever a workload that comes by HTTP may wait for the operator: such a
        workload does not say that it waits."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self._pace.quiet)
            idle = loop.time() - self.tracer.last_activity
            if idle > self._pace.quiet and not self._tasks and not self.tracer.open_requests:
                await self.injector.on_quiet(is_blocked=True)

    async def finish(self, outcome: Mapping[str, Any]) -> History:
        """End a run when the operator has settled, and return what happened. `outcome` has fields
        of the history."""
        settled = await self._settle()
        if self._setup.has_http_workload:
            await self.injector.end_workload()
            settled = await self._settle()
        final = await self._objects(self._assignment.expected)
        await self._end_run()
        history = structs.replace(self.tracer.history(), **outcome)
        history.output, history.varied = "".join(self._outputs), self._varied
        history.settled, history.final = settled, final
        history.idle_requests = tuple(self._idle_requests)
        history.forbidden = forbidden_requests(self._server, self._user, history)
        return history

    async def _end_run(self) -> None:
        self._is_running = False
        if self._watcher is not None:
            self._watcher.cancel()
            self._watcher = None
        await self._stop_all()

    @property
    def is_pending(self) -> bool:
        """Whether the points of the last plan did not come."""
        return bool(self.injector.pending)

    def record(self, path: Path, name: str) -> None:
        """Write a recording of the last run, for `kapiserver replay`. Raises OSError."""
        self._server.record(path, test=name)

    @property
    def _user(self) -> str:
        return self._setup.user or OPERATOR_USER

    # Steps.

    async def _run_steps(self, steps: Sequence[Step]) -> dict[str, Any]:
        """Run the steps; return the fields of the history that say why they did not reach their
        end."""
        for index, step in enumerate(steps):
            await self.injector.before_step(index)
            self.tracer.mark(str(step), index)
            try:
                await self._perform(step)
            except (AssertionError, StatusError) as error:
                text = f"step {index + 1} ({step}) failed: {error}"
                return {"unreached": text, "refused": isinstance(error, StatusError)}
        await self._settle()
        await self.injector.before_step(len(steps))
        return {}

    async def _perform(self, step: Step) -> None:
        match step:
            case Wait():
                await self._wait(step)
            case Settle():
                await self._settle()
            case Advance(seconds=seconds):
                await self._server.clock.advance_async(seconds)
            case _:
                await self._writes.perform(step)

    async def _wait(self, step: Wait) -> None:
        """Wait for the condition of a step. Raises AssertionError when its time is over, or when
        the operator has settled without it and nothing that a plan does lasts any more."""
        loop, tracer = asyncio.get_running_loop(), self.tracer
        deadline, attempt = loop.time() + step.seconds, 0.0
        limit = loop.time() + MAX_RETRY_SECONDS
        while True:
            try:
                await self._server.objects.wait_for_async(
                    str(step.target),
                    step.condition,
                    namespace=step.target.namespace,
                    timeout=min(step.seconds, self._pace.quiet),
                )
            except AssertionError as error:
                idle = loop.time() - tracer.last_activity
                is_quiet = idle > self._pace.quiet and not self._tasks
                if is_quiet and await self.injector.on_quiet(is_blocked=True):
                    continue
                is_over = self._pace.patience and idle > self._pace.patience + self._pace.quiet
                if loop.time() > deadline or (is_over and not self._tasks):
                    attempt = max(attempt, self._next_attempt(await self._state()))
                    if loop.time() < min(attempt, limit):
                        continue
                    _, _, details = str(error).partition("\n")
                    raise AssertionError(f"the condition was not met\n{details}") from None
            else:
                return

    # Waiting.

    async def _settle(self) -> bool:
        """Return True when nothing is left to do, False at the time limit."""
        loop, tracer = asyncio.get_running_loop(), self.tracer
        deadline = loop.time() + self._pace.settle
        while not tracer.is_full:
            await self._server.settle_async()
            now = loop.time()
            is_busy = tracer.open_requests or self._tasks
            rest = self._pace.quiet - (now - tracer.last_activity)
            if rest <= 0 and not is_busy and not await self.injector.on_quiet():
                return True
            if now > deadline:
                return False
            await asyncio.sleep(max(POLL_SECONDS, rest))
        return False

    async def _objects(self, expected: Expectation | None) -> dict[ObjectRef, Tree]:
        """Return the objects, when they are as expected, or patience is over and the operator has
        tried again."""
        loop = asyncio.get_running_loop()
        deadline, attempt = loop.time() + self._pace.patience, 0.0
        limit = loop.time() + MAX_RETRY_SECONDS
        while True:
            objects = await self._state()
            is_expected = expected is None or not expected.differences(objects)
            if not is_expected:
                attempt = max(attempt, self._next_attempt(objects))
            if is_expected or loop.time() > max(deadline, min(attempt, limit)):
                return objects
            await asyncio.sleep(self._pace.quiet)
            await self._settle()

    def _next_attempt(self, objects: Mapping[ObjectRef, Tree]) -> float:
        """Return the loop's time at which the operator has tried again, if the objects say when it
        will; else, and in a plain run, the present time."""
        seconds = seconds_to_retry(objects.values(), time.time()) if self._pace.patience else 0.0
        patience = self._pace.patience if seconds else 0.0
        return asyncio.get_running_loop().time() + seconds + patience

    async def _state(self) -> dict[ObjectRef, Tree]:
        assert self._clean is not None
        return await read_state(self._server, self._clean)

    # The operator's instances: a Director.

    async def crash(self, instance: int) -> None:
        """Kill an instance; return when it has ended."""
        self.injector.dead.add(instance)
        await self._end(instance, "kill")

    async def crash_all(self) -> None:
        """Kill all instances; return when they have ended."""
        for instance in list(self._programs):
            await self.crash(instance)

    async def stop_oldest(self) -> None:
        """Stop the oldest instance as a rolling update does; return when it has ended."""
        self.launcher = self._setup.launcher
        if self._programs:
            await self._end(min(self._programs), "stop")

    def restart(self) -> int:
        """Start an instance soon; return its number."""
        number = self._new_number()
        self.begin_soon(self._launch(number))
        return number

    def begin_soon(self, work: Coroutine[Any, Any, None]) -> None:
        """Run what a settled run waits for; not in the context of the request that causes it."""
        task = asyncio.create_task(work, context=Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def take_over(self, instance: int) -> None:
        """Pause an instance until another one works in its place; return at once."""
        self.injector.gates.pause(instance)
        if instance in self._programs:
            self._programs[instance].pause()
        self.begin_soon(self._take_over(instance))

    async def _take_over(self, paused: int) -> None:
        loop = asyncio.get_running_loop()
        number = self._new_number()
        deadline = loop.time() + self._pace.settle
        await self._launch(number)
        while self._is_running and loop.time() < deadline:
            idle = loop.time() - self.tracer.last_activity
            if self.tracer.has_lease(number) and idle > self._pace.quiet:
                break
            await asyncio.sleep(POLL_SECONDS)
        self.injector.gates.resume(paused)
        if paused in self._programs:
            self._programs[paused].resume()

    async def write_as_other(self, reference: ObjectRef) -> None:
        """Change an object as another writer does."""
        await self._writes.annotate_as_other(reference)

    async def vary(self, text: str) -> None:
        """Make the change of a variation, and undo it."""
        variation = parse_variation(text)
        reference = variation.object
        client = self._writes.client(reference)
        obj = await client.get(reference.name)
        await self._writes.update(reference, variation.changed(obj))
        await self._settle()
        self._varied = await self._objects(self._assignment.varied)
        current = await client.get(reference.name)
        await self._writes.update(reference, current | {"spec": obj["spec"]})
        await self._settle()

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
            self._server.faults.end_watches(user=self._user).remove()
            await asyncio.sleep(WATCH_SECONDS)
            await self._settle()
            self._idle_requests.append(self.tracer.operator_requests - before)

    async def obstruct(self, action: str, request: Request) -> None:
        """Make the server refuse writes that are like a request, in the way of an action."""
        await self._obstacles.put(action, request, self._user)

    async def clear_obstacles(self) -> None:
        """Let the server accept all writes again."""
        await self._obstacles.clear()

    def expire_watches(self, resource: str) -> None:
        """End the operator's watches of a resource with 410 Expired."""
        self._server.faults.expire_watches(resource=resource, user=self._user).remove()

    def _new_number(self) -> int:
        """Return the number of a new instance, whose requests are expected from now on."""
        self._number += 1
        return self._number

    async def _launch(self, instance: int) -> None:
        """Start an instance; return when it has sent its first requests, or has ended."""
        path, token = self._kubeconfig()
        self.injector.instances[f"Bearer {token}"] = instance
        assert self.launcher is not None
        program = await self.launcher.launch(path, self._on_exit)
        self._programs[instance] = program
        loop = asyncio.get_running_loop()
        deadline = loop.time() + START_SECONDS
        while self._is_running and loop.time() < deadline:
            if program.exit_status is not None or instance in self.injector.dead:
                return
            if self.tracer.has_started(instance, self._pace.watches):
                return
            await asyncio.sleep(POLL_SECONDS)

    def _on_exit(self, status: int) -> None:
        """Record an exit, and start the operator again, as a Deployment does."""
        self.tracer.record_exit(status)
        if self._is_running and self._restarts < MAX_RESTARTS:
            self._restarts += 1
            self.restart()

    def _kubeconfig(self) -> tuple[Path, str]:
        user = self._user
        groups = _groups(self._setup.user)
        token = self._server.add_token(user, groups)
        self._tokens.append(token)
        return self._server.write_kubeconfig("default", token=token), token

    async def _end(self, instance: int, how: str) -> None:
        program = self._programs.pop(instance, None)
        if program is not None:
            await (program.kill() if how == "kill" else program.stop())
            self._outputs.append(program.output)

    async def _stop_all(self) -> None:
        for instance in list(self._programs):
            await self._end(instance, "kill")
        if self._tasks:
            await asyncio.wait(self._tasks)
        for instance in list(self._programs):
            await self._end(instance, "kill")
        for token in self._tokens:
            self._server.remove_token(token)
        self._tokens.clear()


def _groups(user: str) -> tuple[str, ...]:
    """Return the groups of the operator's user: those of a ServiceAccount, or administrators."""
    if user.startswith("system:serviceaccount:"):
        return ("system:serviceaccounts", f"system:serviceaccounts:{user.split(':')[2]}")
    return () if user else ("system:masters",)


@asynccontextmanager
async def open_session(setup: Setup) -> AsyncIterator[Session]:
    """Start a server for a session. Raises OSError, ValueError, StatusError for what cannot be
    installed."""
    async with TestServer(simulate=setup.simulate) as server:
        session = Session(server, setup)
        await session.install()
        yield session
