"""Repeats a plan that fails: how certain is it, and which of its injections does it need?"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from msgspec import Struct

from kapiserver.exploring.planning.plans import Plan

REPEATS = 2
"""How often a plan that fails is run again."""

Fails: TypeAlias = Callable[[Plan], Awaitable[bool]]
"""Runs a plan, and reports whether it fails."""


class Certainty(Struct, frozen=True):
    """How often a plan failed: in `failed` of `runs` runs."""

    failed: int
    runs: int

    def __str__(self) -> str:
        return f"failed in {self.failed} of {self.runs} runs"


async def reduce_plan(plan: Plan, fails: Fails) -> Plan:
    """Return a plan with the fewest injections of a failing plan, such that it still fails and
    would not without any one of them."""
    injections = list(plan.injections)
    for injection in plan.injections:
        rest = [item for item in injections if item is not injection]
        if rest and await fails(Plan(tuple(rest))):
            injections = rest
    return Plan(tuple(injections))


async def repeat(plan: Plan, fails: Fails) -> Certainty:
    """Run a plan that has failed once again and again, and return how often it failed in all."""
    failed = 1
    for _ in range(REPEATS):
        failed += await fails(plan)
    return Certainty(failed, REPEATS + 1)
