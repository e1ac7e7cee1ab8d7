"""The names of objects that all runs of a workload have, and patterns for generated names. Pure.

A name that not all plain runs have is generated: the uids in it are replaced by `*`, or if it has
none, its last part, behind a dash.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from kapiserver.exploring.history import History, ObjectRef

_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Names(Struct, frozen=True):
    """Which names all plain runs have, and the patterns of those that they do not share."""

    patterns: frozenset[ObjectRef] = frozenset()

    def normalise(self, reference: ObjectRef) -> ObjectRef:
        """Return the reference with the pattern of its name, if its name differs between runs."""
        pattern = _pattern(reference)
        return pattern if pattern in self.patterns else reference


def _pattern(reference: ObjectRef) -> ObjectRef:
    name = _UID.sub("*", reference.name)
    if name == reference.name:
        head, _, _ = name.rpartition("-")
        name = f"{head}-*" if head else "*"
    return ObjectRef(reference.resource, reference.namespace, name)


def learn_names(histories: Sequence[History]) -> Names:
    """Return the names of the histories. A pattern stands for the names of objects that only some
    of the histories have."""
    seen = [_references(history) for history in histories]
    shared = frozenset.intersection(*seen)
    unstable = frozenset.union(*seen) - shared
    return Names(frozenset(map(_pattern, unstable)))


def _references(history: History) -> frozenset[ObjectRef]:
    commits = {commit.object for commit in history.commits}
    return frozenset(commits | {request.object for request in history.operator_writes})
