"""The server's own admission refuses what a plan makes it refuse."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from kapiserver.exploring.history import History, Request
from kapiserver.exploring.judging.loops import MAX_SAME_WRITES
from kapiserver.exploring.planning.plans import MAX_OBSTRUCTED, parse_plan
from kapiserver.exploring.running.operators.programs import CommandLauncher
from kapiserver.exploring.running.session import Assignment, Pace, Setup, open_session
from kapiserver.exploring.steps import parse_workload

COPIER = str(Path(__file__).parent / "copier.py")
STEPS = [
    {
        "apply": {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "a", "labels": {"copy": "yes"}},
        }
    },
    {"wait": {"for": "create", "on": "secrets/a"}},
]
CREATE = "create:secrets:default:a:1"


async def run(plan: str, pace: Pace) -> History:
    steps = parse_workload({"steps": STEPS}, Path())
    setup = Setup(launcher=CommandLauncher([sys.executable, COPIER]), steps=steps)
    async with open_session(setup) as session:
        return await session.run(Assignment(plan=parse_plan(plan), pace=pace))


def statuses(requests: Sequence[Request]) -> list[int | None]:
    """Return those of the creations up to the first that succeeds."""
    seen = [item.status for item in requests if item.verb == "create"]
    return seen[: seen.index(201) + 1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plan", "status"),
    [
        (f"quota@{CREATE}=once", 403),
        (f"webhook@{CREATE}=once", 500),
        (f"quota@{CREATE}", 403),
        (f"refuse@{CREATE}=timeout", 504),
        (f"refuse@{CREATE}=dropped*3", 0),
    ],
)
def test_refused_writes(plan: str, status: int) -> None:
    """The operator is refused at least once, and no more when the plan is over; nothing of it is
    left over."""
    history = asyncio.run(run(plan, Pace()))
    assert history.unreached == ""
    *refused, last = statuses(history.requests)
    assert set(refused) == {status}
    assert last == 201
    resources = {reference.resource for reference in history.final}
    assert resources == {"configmaps", "secrets"}


@pytest.mark.slow
def test_operator_that_tries_again_without_a_rest() -> None:
    """An obstacle ends before the attempts of such an operator look like a loop."""
    history = asyncio.run(run(f"webhook@{CREATE}", Pace(quiet=2.0)))
    *refused, last = statuses(history.requests)
    assert MAX_OBSTRUCTED <= len(refused) < MAX_SAME_WRITES
    assert last == 201
    assert history.settled


@pytest.mark.slow
def test_a_port_in_use() -> None:
    """Two instances that listen on one port cannot run on one machine; that is no fault."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    launcher = CommandLauncher([sys.executable, COPIER, "listens"], {"PORT": port})

    async def is_pending() -> bool:
        setup = Setup(launcher=launcher, steps=parse_workload({"steps": STEPS}, Path()))
        async with open_session(setup) as session:
            await session.run(Assignment(plan=parse_plan("overlap@step::::0"), pace=Pace()))
            return session.is_pending

    assert asyncio.run(is_pending())
