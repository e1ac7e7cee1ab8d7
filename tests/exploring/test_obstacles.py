"""The server's own admission refuses what a plan makes it refuse."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from kapiserver.exploring.history import Request
from kapiserver.exploring.judging.loops import MAX_SAME_WRITES
from kapiserver.exploring.planning.plans import MAX_OBSTRUCTED
from kapiserver.exploring.running.assignment import Pace
from tests.exploring.copierkit import run_copier

CREATE = "create:secrets:default:a:1"


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
    history, _ = asyncio.run(run_copier(plan, "a"))
    assert history.unreached == ""
    *refused, last = statuses(history.requests)
    assert set(refused) == {status}
    assert last == 201
    resources = {reference.resource for reference in history.final}
    assert resources == {"configmaps", "secrets"}


@pytest.mark.slow
def test_operator_that_tries_again_without_a_rest() -> None:
    """An obstacle ends before the attempts of such an operator look like a loop."""
    history, _ = asyncio.run(run_copier(f"webhook@{CREATE}", "a", pace=Pace(quiet=2.0)))
    *refused, last = statuses(history.requests)
    assert MAX_OBSTRUCTED <= len(refused) < MAX_SAME_WRITES
    assert last == 201
    assert history.settled
