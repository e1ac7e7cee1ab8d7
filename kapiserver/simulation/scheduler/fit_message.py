"""The message of a pod that fits nowhere. Mirrors FitError of pkg/scheduler/framework."""

from __future__ import annotations

from collections.abc import Mapping


def fit_message(count: int, reasons: Mapping[str, int]) -> str:
    """Return the message about `count` nodes, with the number of nodes for each reason. The parts
    are sorted as texts, so that 10 comes before 2."""
    parts = sorted(f"{number} {reason}" for reason, number in reasons.items())
    message = f"0/{count} nodes are available:"
    return f"{message} {', '.join(parts)}." if parts else message
