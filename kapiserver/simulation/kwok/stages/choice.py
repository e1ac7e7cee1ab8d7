"""The choice of the stage that applies to an object, and of the time when it does."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from kapiserver.api.types import Tree
from kapiserver.simulation.kwok.stages.stage import Stage


def candidates(stages: Sequence[Stage], obj: Tree, now: float) -> list[tuple[Stage, int]]:
    """Return the stages that may be chosen for an object, with their weights.

    If all weights are 0, or none can be read, the stages are equally likely.
    """
    selected = [stage for stage in stages if stage.selects(obj, now)]
    if len(selected) <= 1:
        return [(stage, 1) for stage in selected]
    weights = [(stage, stage.weight(obj, now)) for stage in selected]
    weighted_stages = [(stage, weight) for stage, weight in weights if weight is not None]
    if not weighted_stages:
        return [(stage, 1) for stage in selected]
    if sum(weight for _, weight in weighted_stages) <= 0:
        return [(stage, 1) for stage, _ in weighted_stages]
    return [(stage, weight) for stage, weight in weighted_stages if weight > 0]


def choose(stages: Sequence[Stage], obj: Tree, now: float, rng: Random) -> Stage | None:
    """Return the stage for an object, at random by weight; None if none applies."""
    choices = candidates(stages, obj, now)
    if len(choices) <= 1:
        return choices[0][0] if choices else None
    return rng.choices([stage for stage, _ in choices], [weight for _, weight in choices])[0]


def delay_of(stage: Stage, obj: Tree, now: float, rng: Random) -> float:
    """Return the seconds after which a stage applies, at random within its range."""
    delays = stage.delays(obj, now)
    return max(rng.uniform(*delays) if len(delays) == 2 else sum(delays), 0.0)
