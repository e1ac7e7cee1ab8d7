"""Makes plans with two injections, for the time when all plans with one are done. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, islice

from kapiserver.exploring.planning.plans import Plan
from kapiserver.exploring.planning.variations import variation_of

MAX_PAIRS = 1000


def make_pairs(plans: Sequence[Plan]) -> Iterator[Plan]:
    """Yield plans with the injections of two plans that can happen together, without variations."""
    single = [plan for plan in plans if variation_of(plan) is None]
    for first, second in islice(combinations(single, 2), MAX_PAIRS):
        plan = Plan((*first.injections, *second.injections))
        if first.injections[0].point != second.injections[0].point and not _sees_lost_past(plan):
            yield plan


def _sees_lost_past(plan: Plan) -> bool:
    """Whether it may show the state of an hour ago, which the store has compacted."""
    return plan.has("stale") and (plan.has("advance") or plan.has("age"))
