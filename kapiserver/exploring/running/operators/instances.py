"""The instances of the operator of one run: started, killed, stopped, paused, and how long they
rest.

An instance has a number, from 1, and a kubeconfig of its own, by which its requests are known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextvars import Context
from typing import Any

from kapiserver.exploring.running.operators.kubeconfigs import Kubeconfigs
from kapiserver.exploring.running.operators.programs import Launcher, Program
from kapiserver.exploring.running.tracer import Tracer
from kapiserver.testing.server import TestServer

START_SECONDS = 30.0
"""Time in which an operator must send its first request."""
POLL_SECONDS = 0.002
MAX_RESTARTS = 3
"""How often an operator that exits is started again in one run."""
OPERATOR_USER = "operator"


class Instances:
    """The programs of one run after the other; used on the server's loop."""

    def __init__(
        self,
        server: TestServer,
        tracer: Tracer,
        launcher: Launcher | None,
        user: str,
        plain_url: str,
    ) -> None:
        self._tracer = tracer
        self._launcher = launcher
        self.user = user or OPERATOR_USER
        """The user of the operator's requests."""
        self.kubeconfigs = Kubeconfigs(server, self.user, _groups(user), plain_url)
        self.launcher = launcher
        """Starts the next instance."""
        self.dead: set[int] = set()
        """Instances that were killed: their requests get no response."""
        self._programs: dict[int, Program] = {}
        self._outputs: list[str] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._newest = self._restarts = self._watches = 0
        self._is_running = False
        self.has_new = False
        """Whether an instance was started since the operator had settled."""

    def begin(self, earlier_version: Launcher | None, watches: int, credential: str) -> None:
        """Begin a run, whose instances open this many watches when they start, and are an earlier
        version of the operator until `upgrade`, if there is one. `credential` expires in it."""
        self.launcher = earlier_version or self._launcher
        self._watches = watches
        self.kubeconfigs.begin(credential)
        self.dead.clear()
        self._outputs.clear()
        self._newest = self._restarts = 0
        self._is_running = True

    @property
    def output(self) -> str:
        """What the programs have written so far."""
        return "".join([*self._outputs, *(program.output for program in self._programs.values())])

    @property
    def is_changing(self) -> bool:
        """Whether work is under way for which a run waits, such as the start of an instance."""
        return bool(self._tasks)

    async def rest(self, seconds: float) -> float:
        """Let a part of these seconds of the programs' time go by. Return how much went by while
        all of them waited."""
        match tuple(self._programs.values()):
            case ():
                await asyncio.sleep(0)
                return seconds
            case (program,):
                return await program.rest(seconds)
            case programs:
                return min(await asyncio.gather(*(program.rest(seconds) for program in programs)))

    # Start and end.

    def new_number(self) -> int:
        """Return the number of a new instance, whose requests are expected from now on."""
        self._newest += 1
        return self._newest

    def restart(self) -> int:
        """Start an instance soon; return its number."""
        number = self.new_number()
        self.begin_soon(self.launch(number))
        return number

    def begin_soon(self, work: Coroutine[Any, Any, None]) -> None:
        """Run what a settled run waits for; not in the context of the request that causes it."""
        task = asyncio.create_task(work, context=Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def launch(self, instance: int) -> None:
        """Start an instance; return when it has sent its first requests, or has ended."""
        assert self.launcher is not None
        kubeconfig = self.kubeconfigs.write(instance)
        self.has_new = True
        program = await self.launcher.launch(kubeconfig, self._on_exit)
        self._programs[instance] = program
        loop = asyncio.get_running_loop()
        deadline = loop.time() + START_SECONDS
        while self._is_running and loop.time() < deadline:
            if program.exit_status is not None or instance in self.dead:
                return
            if self._tracer.has_started(instance, self._watches):
                return
            await asyncio.sleep(POLL_SECONDS)

    def _on_exit(self, status: int) -> None:
        """Record an exit, and start the operator again, as a Deployment does."""
        self._tracer.record_exit(status)
        if self._is_running and self._restarts < MAX_RESTARTS:
            self._restarts += 1
            self.restart()

    async def crash(self, instance: int) -> None:
        """Kill an instance; return when it has ended."""
        self.dead.add(instance)
        await self._end(instance, "kill")

    async def crash_all(self) -> None:
        """Kill all instances; return when they have ended."""
        for instance in list(self._programs):
            await self.crash(instance)

    async def stop_older(self) -> None:
        """Stop all instances but the newest as a rolling update does; return when they have
        ended."""
        for instance in sorted(self._programs)[:-1]:
            await self._end(instance, "stop")

    async def upgrade(self) -> None:
        """Stop the earlier version, and start the present one soon."""
        for instance in list(self._programs):
            await self._end(instance, "stop")
        self.launcher = self._launcher
        self.restart()

    def pause(self, instance: int) -> None:
        """Stop the execution of an instance, if it runs."""
        if instance in self._programs:
            self._programs[instance].pause()

    def resume(self, instance: int) -> None:
        """Let a paused instance run on, if it is still there."""
        if instance in self._programs:
            self._programs[instance].resume()

    async def _end(self, instance: int, how: str) -> None:
        program = self._programs.pop(instance, None)
        if program is not None:
            await (program.kill() if how == "kill" else program.stop())
            self._outputs.append(program.output)

    async def end(self) -> None:
        """End the run: kill all instances. Idempotent."""
        self._is_running = False
        for instance in list(self._programs):
            await self._end(instance, "kill")
        if self._tasks:
            await asyncio.wait(self._tasks)
        for instance in list(self._programs):
            await self._end(instance, "kill")
        self.kubeconfigs.end()

    @property
    def is_running(self) -> bool:
        """Whether a run is under way."""
        return self._is_running


def _groups(user: str) -> tuple[str, ...]:
    """Return the groups of the operator's user: those of a ServiceAccount, or administrators."""
    if user.startswith("system:serviceaccount:"):
        return ("system:serviceaccounts", f"system:serviceaccounts:{user.split(':')[2]}")
    return () if user else ("system:masters",)
