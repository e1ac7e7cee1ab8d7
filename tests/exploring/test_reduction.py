"""A failing plan is reduced and repeated."""

from __future__ import annotations

import asyncio

from kapiserver.exploring.planning.plans import Plan, parse_plan
from kapiserver.exploring.planning.reduction import Certainty, reduce_plan, repeat

PLAN = parse_plan("+".join(f"crash-idle@step::::{number}" for number in range(4)))


def test_reduction() -> None:
    """The injections that a failure does not need are left out."""
    needed = {PLAN.injections[1], PLAN.injections[3]}

    async def fails(plan: Plan) -> bool:
        return needed <= set(plan.injections)

    assert set(asyncio.run(reduce_plan(PLAN, fails)).injections) == needed


def test_certainty() -> None:
    """A plan is repeated twice."""
    results = iter([True, False])

    async def fails(_: Plan) -> bool:
        return next(results)

    certainty = asyncio.run(repeat(PLAN, fails))
    assert certainty == Certainty(2, 3)
    assert str(certainty) == "failed in 2 of 3 runs"
