"""Waits until a server has done the work that is due, without sleeping."""

from __future__ import annotations

import asyncio

from kapiserver.apiserver.context import Server
from kapiserver.controllers.manager import ControllerManager

MAX_ROUNDS = 500
"""Rounds after which `settle` returns although a controller goes on writing."""
TURNS = 10
"""Turns of the event loop in a round, unless the loop has nothing left to run before."""
IDLE_TURNS = 2
"""Turns with nothing else to run, after which the loop has nothing left to run: between them it has
looked whether sockets have data."""
QUIET_ROUNDS = 2
"""Rounds without an operation on the store after which no task is at work. One is enough if the
loop has nothing left to run."""
WAITING_ROUNDS = 20
"""Quiet rounds after which the work of controllers waits for somebody else."""


async def settle(server: Server, controllers: ControllerManager) -> None:
    """Return when no task of the server has worked for some turns of its event loop and no
    controller has anything left to do, or after MAX_ROUNDS. Controllers do at once what they put
    off to cover a burst of changes. Tasks that wait for another timer do not count, and those that
    wait for a webhook or a client only for WAITING_ROUNDS."""
    kv, key = server.stores.kv, f"{server.config.store.key_root}/"
    offloader = server.offloader
    quiet_rounds, operations = 0, server.metrics.storage_operations
    for _ in range(MAX_ROUNDS):
        before = operations
        await kv.get(key)  # the store answers in order: earlier operations have ended
        is_idle = await run_ready_tasks(TURNS)
        is_quiet = not offloader.is_running  # a thread may load what the first write needs
        while offloader.is_running:
            await offloader.run_in_thread(_do_nothing, limited=False)
        operations = server.metrics.storage_operations
        is_quiet = is_quiet and operations == before + 1  # only the get above
        quiet_rounds = quiet_rounds + 1 if is_quiet else 0
        if quiet_rounds < (1 if is_idle else QUIET_ROUNDS):
            continue
        if controllers.settled or quiet_rounds >= WAITING_ROUNDS:
            if not controllers.end_batches():
                return
            quiet_rounds = 0
        else:  # somebody else needs time to answer, such as a webhook
            for _ in range(TURNS):
                await asyncio.sleep(0)


async def run_ready_tasks(turns: int) -> bool:
    """Let the running loop do what is ready, for this many turns at most; report whether it has
    nothing left to run. Only loops of asyncio say so."""
    ready = getattr(asyncio.get_running_loop(), "_ready", True)
    idle_turns = 0
    for _ in range(turns):
        await asyncio.sleep(0)
        idle_turns = 0 if ready else idle_turns + 1
        if idle_turns == IDLE_TURNS:
            return True
    return False


def _do_nothing() -> None:
    """Return after the jobs that were queued before this one."""
