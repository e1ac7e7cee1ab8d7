"""Says what is wrong with a run: pure functions over its history and what plain runs did.

Each oracle takes a Run and yields faults. ORACLES lists them, the gravest first.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

from msgspec import Struct

from kapiserver.api.types import Tree
from kapiserver.exploring.history import (
    OPERATOR,
    OTHER_ANNOTATION,
    Commit,
    Exit,
    History,
    ObjectRef,
)
from kapiserver.exploring.judging.fault import Fault
from kapiserver.exploring.judging.invariants import Invariant, violations
from kapiserver.exploring.judging.loops import endless_loops
from kapiserver.exploring.judging.states import MISSING, UNEXPECTED, Difference, Expectation
from kapiserver.exploring.names import Names
from kapiserver.exploring.planning.plans import Plan

MIN_GROWTH = 3
"""A rate must double and also grow by this many requests."""


class Reference(Struct, frozen=True, kw_only=True):
    """What the plain runs did.

    created     how often the operator created an object in one run at most, by normalised name
    deleted     how often it deleted an object in one run at most, by normalised name
    forbidden   requests that RBAC refused
    tracebacks  the last lines of tracebacks
    """

    expectation: Expectation
    created: Mapping[ObjectRef, int]
    deleted: Mapping[ObjectRef, int]
    forbidden: frozenset[str]
    tracebacks: frozenset[str]


def learn_reference(histories: Sequence[History], expectation: Expectation) -> Reference:
    """Return what the plain runs did."""
    names = expectation.names
    return Reference(
        expectation=expectation,
        created=_count(map(operator_creations, histories), names),
        deleted=_count(map(operator_deletions, histories), names),
        forbidden=frozenset(str(request) for history in histories for request in history.forbidden),
        tracebacks=frozenset(line for history in histories for line in tracebacks(history.output)),
    )


class Run(Struct, frozen=True, kw_only=True):
    """A run to judge.

    fresh       the state of a fresh installation of what a plan varies, None if it does not count
    """

    plan: Plan
    history: History
    reference: Reference
    invariants: Sequence[Invariant] = ()
    fresh: Expectation | None = None


def judge(run: Run) -> list[Fault]:
    """Return everything that is wrong with a run, the gravest first."""
    return [fault for oracle in ORACLES for fault in oracle(run)]


# Who deleted what.


def operator_deletions(history: History) -> list[Commit]:
    """Return the commits that remove objects, or mark them as deleted, because of the operator.
    What the garbage collector removes counts for whoever deleted the owner."""
    deleters: dict[str, str] = {}
    result = []
    for commit in history.commits:
        metadata = commit.metadata
        uid = str(metadata.get("uid") or "")
        is_marked = bool(metadata.get("deletionTimestamp"))
        was_marked = bool(((commit.old or {}).get("metadata") or {}).get("deletionTimestamp"))
        if commit.operation != "deleted" and not (is_marked and not was_marked):
            continue
        if uid in deleters:  # marked before
            continue
        owners = [str(owner.get("uid")) for owner in metadata.get("ownerReferences") or ()]
        by_owner = [deleters[owner] for owner in owners if owner in deleters]
        deleters[uid] = by_owner[0] if commit.request is None and by_owner else commit.actor
        if deleters[uid] == OPERATOR:
            result.append(commit)
    return result


def operator_creations(history: History) -> list[Commit]:
    """Return the commits by which the operator created objects."""
    return [
        commit
        for commit in history.commits
        if commit.operation == "created" and commit.actor == OPERATOR
    ]


def _count(runs: Iterable[Iterable[Commit]], names: Names) -> dict[ObjectRef, int]:
    """Return how many of the commits of one run are about an object at most."""
    most: Counter[ObjectRef] = Counter()
    for commits in runs:
        most |= Counter(names.normalise(commit.object) for commit in commits)
    return dict(most)


def _times(count: int) -> str:
    """Return a number of times in words."""
    return "once" if count == 1 else f"{count} times"


def _deletions(run: Run) -> Iterator[Fault]:
    """Yield deletions of objects that the operator never deletes in the plain runs, and those of a
    successor: an object of a name that it deletes there, deleted once more. Another value in the
    custom resource, and its end, may rightly delete what the plain runs keep. The operator may also
    delete what it has created once more than in the plain runs, because it did not know better."""
    if run.plan.has("vary"):
        return
    names, allowed = run.reference.expectation.names, run.reference.deleted
    counts: Counter[ObjectRef] = Counter()
    surplus = _surplus(run)
    for commit in operator_deletions(run.history):
        if commit.metadata.get("uid") in surplus:
            continue
        normal = names.normalise(commit.object)
        counts[normal] += 1
        is_generated = normal != commit.object
        if normal in allowed and (is_generated or counts[normal] <= allowed[normal]):
            continue
        recreated = any(
            later.object == commit.object and later.operation == "created"
            for later in run.history.commits
            if later.position > commit.position
        )
        event = "deleted and recreated" if recreated else "deleted"
        usual = f"deletes only {_times(allowed[normal])}" if normal in allowed else "never deletes"
        yield Fault(
            oracle="deletion",
            message=f"The operator {event} {commit.object}, which it {usual} in the plain runs.",
            position=commit.position,
        )


def _surplus(run: Run) -> set[object]:
    """Return the uids of the objects that the operator has created more often than it does in the
    plain runs."""
    names, usual = run.reference.expectation.names, run.reference.created
    counts: Counter[ObjectRef] = Counter()
    uids = set()
    for commit in operator_creations(run.history):
        normal = names.normalise(commit.object)
        counts[normal] += 1
        if counts[normal] > usual.get(normal, 0):
            uids.add(commit.metadata.get("uid"))
    return uids


# The end.


def _unreached(run: Run) -> Iterator[Fault]:
    if run.history.unreached:
        head, *lines = run.history.unreached.splitlines()
        yield Fault(
            oracle="unreached",
            message=f"The workload did not reach its end: {head}.",
            lines=tuple(lines),
        )


def _leftovers(run: Run) -> Iterator[Fault]:
    """Yield objects that wait for a finalizer, and objects whose owner is gone."""
    uids = {obj["metadata"].get("uid") for obj in run.history.final.values()}
    for reference, obj in run.history.final.items():
        if not _is_unexpected(run, reference):
            continue
        metadata = obj["metadata"]
        if metadata.get("deletionTimestamp") and metadata.get("finalizers"):
            finalizers = ", ".join(metadata["finalizers"])
            yield Fault(
                oracle="leftover",
                message=f"{reference} is deleted, but its finalizer {finalizers} is left over.",
            )
        owners = metadata.get("ownerReferences") or ()
        if owners and not any(owner.get("uid") in uids for owner in owners):
            yield Fault(oracle="leftover", message=f"{reference} is left over: its owner is gone.")


def _is_unexpected(run: Run, reference: ObjectRef) -> bool:
    expectation = run.reference.expectation
    normal = expectation.names.normalise(reference)
    return normal not in expectation.state and normal not in expectation.ignored_objects


def _end_state(run: Run) -> Iterator[Fault]:
    if run.history.unreached:
        return
    differences = run.reference.expectation.differences(run.history.final)
    if differences:
        lines = tuple(line for item in differences for line in _difference_lines(item))
        yield Fault(
            oracle="end state",
            message="The end state is not that of the plain runs.",
            lines=lines,
        )


def _varied_state(run: Run) -> Iterator[Fault]:
    if run.fresh is None or run.history.varied is None:
        return
    differences = run.fresh.differences(run.history.varied)
    if differences:
        yield Fault(
            oracle="varied state",
            message="After the change, the state is not that of a fresh installation with the same "
            "object.",
            lines=tuple(line for item in differences for line in _difference_lines(item)),
        )


def _difference_lines(difference: Difference) -> list[str]:
    if difference.text == MISSING:
        return [f"- {difference.object}: is missing"]
    if difference.text == UNEXPECTED:
        return [f"+ {difference.object}: should not be there"]
    return str(difference).splitlines()


# While it runs.


def _lost_changes(run: Run) -> Iterator[Fault]:
    """Yield writes of the operator that undo the change of another writer."""
    for commit in run.history.commits:
        if commit.actor != OPERATOR or commit.new is None:
            continue
        if _has_other_annotation(commit.old) and not _has_other_annotation(commit.new):
            yield Fault(
                oracle="lost change",
                message=f"The operator undid the change of another writer of {commit.object}: the "
                f"annotation {OTHER_ANNOTATION} is gone.",
                position=commit.position,
            )


def _has_other_annotation(obj: Tree | None) -> bool:
    metadata = (obj or {}).get("metadata") or {}
    return OTHER_ANNOTATION in (metadata.get("annotations") or {})


def _violations(run: Run) -> Iterator[Fault]:
    for invariant, message, position in violations(run.history, run.invariants):
        yield Fault(
            oracle="invariant",
            message=f"The invariant {invariant.__name__} is false: {message}.",
            position=position,
        )


def _exits(run: Run) -> Iterator[Fault]:
    if run.plan.has("takeover") or run.plan.expiring:
        return  # an instance that is no longer the leader, or got 401, may exit
    first_exits: dict[int, Exit] = {}  # it is started again, and may exit again
    for item in run.history.exits:
        first_exits.setdefault(item.status, item)
    for item in first_exits.values():
        lines = tuple(run.history.output.splitlines()[-15:])
        yield Fault(
            oracle="exit",
            message=f"The operator exited with status {item.status}.",
            lines=lines,
            position=item.position,
        )


_PROGRAM_ERRORS = re.compile(
    r"(\w+\.)*(KeyError|AttributeError|TypeError|IndexError|NameError|UnboundLocalError|"
    r"AssertionError|ZeroDivisionError|RecursionError|RuntimeError|StopIteration)\b.*|panic: .*|"
    r"(Uncaught )?(TypeError|ReferenceError|RangeError): .*|.*nil pointer dereference.*"
)


def tracebacks(output: str) -> list[str]:
    """Return the last lines of the tracebacks and panics in the output of a program that an error
    in the program causes. Errors that a library raises for a response of the server are not among
    them: operators log them and try again."""
    lines = []
    for line in output.splitlines():
        text = line.strip()
        if _PROGRAM_ERRORS.fullmatch(text):
            lines.append(text)
    return lines


def _tracebacks(run: Run) -> Iterator[Fault]:
    for line in dict.fromkeys(tracebacks(run.history.output)):
        if line not in run.reference.tracebacks:
            yield Fault(oracle="traceback", message=f"The operator logged the error {line}")


def _forbidden(run: Run) -> Iterator[Fault]:
    requests = {str(request): request for request in run.history.forbidden}
    for text, request in requests.items():
        if text not in run.reference.forbidden or not run.plan.injections:
            yield Fault(
                oracle="forbidden",
                message=f"The operator may not {text}: its RBAC does not allow it.",
                position=request.position,
            )


def _unsettled(run: Run) -> Iterator[Fault]:
    """Yield writes without an effect, fights over a field, and an operator that is never quiet."""
    faults = endless_loops(run.history)
    yield from faults
    if not run.history.settled and not faults:
        yield Fault(oracle="unsettled", message="The operator did not settle.")


def _growing_rate(run: Run) -> Iterator[Fault]:
    """Yield an operator that sends more and more requests while nothing changes."""
    counts = run.history.idle_requests
    is_growing = all(before < after for before, after in pairwise(counts))
    if len(counts) > 2 and is_growing and counts[-1] >= 2 * counts[0] + MIN_GROWTH:
        numbers = ", ".join(map(str, counts))
        yield Fault(
            oracle="rate",
            message="The operator sends more and more requests although nothing changes.",
            lines=(f"requests in each of {len(counts)} equal parts of an hour: {numbers}",),
        )


Oracle: TypeAlias = Callable[[Run], Iterator[Fault]]
ORACLES: Sequence[Oracle] = (
    _deletions,
    _lost_changes,
    _violations,
    _exits,
    _tracebacks,
    _forbidden,
    _unsettled,
    _growing_rate,
    _leftovers,
    _unreached,
    _varied_state,
    _end_state,
)
