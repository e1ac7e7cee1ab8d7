"""What an exploration is asked for, and what it finds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct, field

from kapiserver.exploring.judging.causes import Event
from kapiserver.exploring.judging.fault import Fault
from kapiserver.exploring.judging.invariants import Invariant
from kapiserver.exploring.planning.plans import Plan
from kapiserver.exploring.planning.reduction import Certainty


class Options(Struct, frozen=True, kw_only=True):
    """The limits of an exploration.

    seconds     how long plans are started after the plain runs
    plans       how many plans are run at most; None: all
    processes   how many servers run plans at the same time; one runs them in this process
    vary        whether plans change properties of custom resources, too
    only        the plans to run in place of those of the planner
    recordings  the folder for recordings of failing plans
    """

    seconds: float = 60.0
    plans: int | None = None
    seed: int = 0
    processes: int = 1
    vary: bool = False
    only: Sequence[Plan] = ()
    invariants: Sequence[Invariant] = ()
    recordings: Path | None = None


class Progress(Struct, frozen=True, kw_only=True):
    """How far an exploration is."""

    done: int
    left: int
    failed: int


class Finding(Struct, frozen=True, kw_only=True):
    """A plan that failed.

    events      the events before the gravest fault
    recording   the file of the recording, or None
    """

    plan: Plan
    faults: Sequence[Fault]
    events: Sequence[Event]
    certainty: Certainty
    recording: Path | None = None


class Exploration(Struct, kw_only=True):
    """The result.

    problem     why the workload does not work without faults, or ""
    left        plans that were not run
    unreached   plans whose points did not come
    unrepeated  plans that failed once, and did not fail when they were repeated
    """

    problem: str = ""
    findings: list[Finding] = field(default_factory=list)
    done: int = 0
    left: int = 0
    unreached: int = 0
    unrepeated: int = 0

    @property
    def failed(self) -> int:
        """The number of plans that failed. Plain runs may fail too, but are not plans."""
        return sum(bool(finding.plan.injections) for finding in self.findings)

    @property
    def passed(self) -> int:
        """The number of plans that never failed, of those whose points came."""
        return self.done - self.failed - self.unreached - self.unrepeated
