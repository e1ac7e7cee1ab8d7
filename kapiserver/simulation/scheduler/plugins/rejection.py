"""What filters return: a check of nodes, and why a node was rejected."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from kapiserver.simulation.scheduler.snapshot import NodeInfo


class Rejection(NamedTuple):
    """Why a pod cannot run on a node.

    reasons     the texts that the message of the pod counts
    resolvable  whether the end of other pods may make the node fit: preemption is tried only there
    """

    reasons: tuple[str, ...]
    resolvable: bool


Check: TypeAlias = Callable[[NodeInfo], Rejection | None]
"""Checks one node for one pod; None if the pod can run there."""
