"""Scores from 0 to 100. Mirrors the plugins' NormalizeScore in pkg/scheduler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kapiserver.simulation.scheduler.snapshot import NodeInfo

MAX_SCORE = 100


def normalized(scores: Sequence[int], *, reverse: bool = False) -> list[int]:
    """Scale scores so that the highest one is 100; with `reverse`, the highest one becomes 0."""
    highest = max(scores, default=0)
    if not highest:
        return [MAX_SCORE if reverse else 0] * len(scores)
    scaled = [score * MAX_SCORE // highest for score in scores]
    return [MAX_SCORE - score for score in scaled] if reverse else scaled


def inverted(unevenness: Mapping[str, int], nodes: Sequence[NodeInfo]) -> list[int]:
    """Return a higher score for a node with less unevenness, and 0 for a node without a value. The
    values are by name of the node."""
    lowest, highest = min(unevenness.values(), default=0), max(unevenness.values(), default=0)
    scores = []
    for node in nodes:
        value = unevenness.get(node.name)
        if value is None:
            scores.append(0)
        else:
            scores.append(
                MAX_SCORE * (highest + lowest - value) // highest if highest else MAX_SCORE
            )
    return scores
