"""What runs plans one after the other: a session, one in another process, or a marked test."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Protocol

from kapiserver.exploring.history import History
from kapiserver.exploring.running.assignment import Assignment
from kapiserver.exploring.steps import Step


class PlanRunner(Protocol):
    """Runs one plan at a time."""

    @property
    def steps(self) -> Sequence[Step]:
        """The steps of the workload."""

    @property
    def checkpoints(self) -> AbstractSet[int]:
        """The steps with which a run may begin, because a plain run saved its state there."""

    @property
    def is_pending(self) -> bool:
        """Whether the last plan could not be done: `Session.is_pending` says why."""

    @property
    def is_in_process(self) -> bool:
        """Whether the operator runs in this process, so that its time can be skipped."""

    @property
    def longest_rest(self) -> float:
        """How long an operator waited before it went on, in seconds of its time."""

    async def run(self, assignment: Assignment) -> History:
        """Run the workload under a plan and return what happened. Raises OSError, ValueError."""

    async def record(self, path: Path, name: str) -> None:
        """Write a recording of the last run. Raises OSError."""
