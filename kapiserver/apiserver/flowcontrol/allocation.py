"""Divides the seats of the server among priority levels that lend and borrow.

Mirrors util/flowcontrol/conc_alloc.go of k8s.io/apiserver. Pure: numbers in, numbers out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

MIN_TARGET = 0.001
"""A smaller target counts as this one, so that every level gets a share of what is left."""


class Bounds(NamedTuple):
    """The seats that a level may get, and those that it could use. `lower` is at most `target` and
    at most `upper`."""

    lower: float
    target: float
    upper: float


class Allocation(NamedTuple):
    """The seats of each level. `fair_fraction` is the part of its target that a level gets whose
    bounds do not matter."""

    seats: tuple[float, ...]
    fair_fraction: float


def allocate(total: float, levels: Sequence[Bounds]) -> Allocation:
    """Return the seats of the levels: their sum is the total, each is between its bounds, and
    between them all get the same fraction of their targets. Raises ValueError if the bounds do not
    allow the total."""
    targets = [max(level.target, MIN_TARGET) for level in levels]

    def seats_at(fraction: float) -> list[float]:
        return [
            max(level.lower, min(level.upper, fraction * target))
            for level, target in zip(levels, targets, strict=True)
        ]

    least, most = sum(level.lower for level in levels), sum(level.upper for level in levels)
    if not least <= total <= most:
        raise ValueError(f"the bounds allow {least} to {most} seats, not {total}")
    # The sum of the seats grows with the fraction, linearly between two of these.
    steps = {0.0}
    for level, target in zip(levels, targets, strict=True):
        steps |= {level.lower / target, level.upper / target}
    below, sum_below = 0.0, sum(seats_at(0.0))
    for step in sorted(steps):
        sum_at_step = sum(seats_at(step))
        if sum_at_step >= total:
            if sum_at_step > sum_below:
                below += (step - below) * (total - sum_below) / (sum_at_step - sum_below)
            break
        below, sum_below = step, sum_at_step
    return Allocation(tuple(seats_at(below)), below)
