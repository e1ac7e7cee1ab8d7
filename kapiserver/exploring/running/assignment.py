"""What a session has to run, and how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, structs

from kapiserver.exploring.judging.states import Expectation
from kapiserver.exploring.names import Names
from kapiserver.exploring.planning.plans import CERTIFICATE, TOKEN, Plan, step_point
from kapiserver.exploring.running.operators.programs import Launcher
from kapiserver.exploring.steps import Step

RELOAD_SECONDS = {TOKEN: 65.0, CERTIFICATE: 310.0}
"""How long a run waits until an operator has read its kubeconfig again: client-go reads the file of
a token each minute, and those of a certificate each five minutes."""


class Pace(Struct, frozen=True, kw_only=True):
    """How long a run waits.

    quiet       seconds of the operator's time for which it must rest to have settled
    settle      real seconds in which it must settle
    patience    seconds of the operator's time for which the end of a run waits for a state that may
                still become the expected one; 0: a plain run, which waits as long as its steps say
    watches     the number of watches that an operator opens when it starts
    """

    quiet: float = 1.0
    settle: float = 30.0
    patience: float = 0.0
    watches: int = 0


class Setup(Struct, frozen=True, kw_only=True):
    """What all runs of a session have in common.

    sources     files and folders of what an administrator installs: definitions, roles
    user        the user that the operator is; "": an administrator
    settings    those of the TestServer, such as `simulate`, by name
    stale_reads whether all reads of a stale view are old
    launcher            starts the operator; None if somebody else sets that of the session
    has_http_workload   whether a test sends the workload's requests, in place of the steps
    earlier_version     starts the version of the operator before an upgrade
    """

    launcher: Launcher | None = None
    steps: Sequence[Step] = ()
    sources: Sequence[str] = ()
    user: str = ""
    settings: Mapping[str, Any] = {}
    stale_reads: bool = False
    earlier_version: Launcher | None = None
    has_http_workload: bool = False


class Assignment(Struct, frozen=True, kw_only=True):
    """What a session is to run.

    names       makes names that all runs have
    expected    the state that the run should reach, for which it waits
    varied      the state that it should reach after a variation
    steps       the steps in place of those of the setup
    tracebacks  the last lines of tracebacks that plain runs have, too
    first_step  the step to begin with, from the state that a plain run had before it
    """

    plan: Plan
    pace: Pace
    names: Names = Names()
    expected: Expectation | None = None
    varied: Expectation | None = None
    steps: Sequence[Step] | None = None
    tracebacks: frozenset[str] = frozenset()
    first_step: int = 0

    @property
    def pace_of_plan(self) -> Pace:
        """The pace, with more patience if the operator must read its kubeconfig again."""
        seconds = RELOAD_SECONDS.get(self.plan.expiring, 0.0)
        return structs.replace(self.pace, patience=max(seconds, self.pace.patience))

    @property
    def begins_without_operator(self) -> bool:
        """Whether the plan would kill the operator at once, before the first step of the run."""
        point = step_point(self.first_step)
        return bool(self.first_step) and any(
            injection.point == point and injection.action in ("crash-idle", "down", "stale")
            for injection in self.plan.injections
        )
