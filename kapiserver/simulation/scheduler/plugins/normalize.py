"""Scores from 0 to 100. Mirrors DefaultNormalizeScore of pkg/scheduler."""

from __future__ import annotations

from collections.abc import Sequence

MAX_SCORE = 100


def normalized(scores: Sequence[int], *, reverse: bool = False) -> list[int]:
    """Scale scores so that the highest one is 100; with `reverse`, the highest one becomes 0."""
    highest = max(scores, default=0)
    if not highest:
        return [MAX_SCORE if reverse else 0] * len(scores)
    scaled = [score * MAX_SCORE // highest for score in scores]
    return [MAX_SCORE - score for score in scaled] if reverse else scaled
