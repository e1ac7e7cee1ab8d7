"""Finds operators that never come to an end: writes without an effect, and fights over a field.
Pure.

A run ends as soon as one is certain, because it would not settle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from kapiserver.api.types import Tree
from kapiserver.exploring.history import LEASES, History, ObjectRef
from kapiserver.exploring.judging.fault import Fault

MAX_SAME_WRITES = 20
"""Requests with one verb, object and body without an effect, after which an operator is in a
loop."""
MAX_FIGHT = 10
"""Changes of one field back to an earlier value, after which two writers fight."""


def endless_loops(history: History) -> list[Fault]:
    """Return the loops of an operator, or of two writers."""
    return [*_same_writes(history), *_fights(history)]


def _same_writes(history: History) -> Iterator[Fault]:
    counts: Counter[tuple[str, int]] = Counter()
    for request in history.operator_writes:
        if request.injected:  # an operator that tries again repeats the writes before this one, too
            counts.clear()
            continue
        if request.commits or request.object.resource == LEASES:
            continue
        key = (str(request), request.digest)
        counts[key] += 1
        if counts[key] == MAX_SAME_WRITES:
            yield Fault(
                oracle="unsettled",
                message=f"The operator sent {request} {MAX_SAME_WRITES} times without an effect.",
                position=request.position,
            )


def _fights(history: History) -> Iterator[Fault]:
    """Yield objects that an operator sets back again and again, each time to an earlier state."""
    seen: dict[ObjectRef, Counter[str]] = {}
    fights: set[ObjectRef] = set()
    for commit in history.commits:
        if commit.operation != "updated" or commit.object.resource == LEASES:
            continue
        key = _spec_text(commit.new)
        counts = seen.setdefault(commit.object, Counter())
        if _spec_text(commit.old) == key:
            continue
        counts[key] += 1
        if counts[key] == MAX_FIGHT and commit.object not in fights:
            fights.add(commit.object)
            yield Fault(
                oracle="unsettled",
                message=f"{commit.object} was set back to an earlier state {MAX_FIGHT} times.",
                position=commit.position,
            )


def _spec_text(obj: Tree | None) -> str:
    """Return an object without what each write changes, as a text that can be compared."""
    obj = obj or {}
    metadata: Mapping[str, object] = obj.get("metadata") or {}
    server_fields = ("resourceVersion", "managedFields", "generation")
    own_metadata = {key: value for key, value in metadata.items() if key not in server_fields}
    return repr(sorted({**obj, "metadata": sorted(own_metadata.items())}.items()))
