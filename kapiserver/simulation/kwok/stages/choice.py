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
    known = [(stage, weight) for stage, weight in weights if weight is not None]
    if not known:
        return [(stage, 1) for stage in selected]
    if sum(weight for _, weight in known) <= 0:
        return [(stage, 1) for stage, _ in known]
    return [(stage, weight) for stage, weight in known if weight > 0]


def choose(stages: Sequence[Stage], obj: Tree, now: float, rng: Random) -> Stage | None:
    """Return the stage for an object, at random by weight; None if none applies."""
    found = candidates(stages, obj, now)
    if len(found) <= 1:
        return found[0][0] if found else None
    return rng.choices([stage for stage, _ in found], [weight for _, weight in found])[0]


def delay_of(stage: Stage, obj: Tree, now: float, rng: Random) -> float:
    """Return the seconds after which a stage applies, at random within its range."""
    delays = stage.delays(obj, now)
    return max(rng.uniform(*delays) if len(delays) == 2 else sum(delays), 0.0)
