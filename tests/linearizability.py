"""Checks whether a history of concurrent operations is linearizable.

The algorithm of Wing and Gong with Lowe's memoization (as in knossos and porcupine): pick an
operation that need not follow another unexplained one, check whether the model allows its outcome,
continue, and backtrack if no operation fits. An operation without a known outcome may take effect
at any time after its call, or never. A model returns all states that an operation may lead to. The
search keeps sets of states, so that an undetermined outcome costs no backtracking.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

State: TypeAlias = Hashable
Model: TypeAlias = Callable[[Any, "Operation"], Iterable[State]]
"""The possible states after an operation; empty if its outcome is impossible."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One call. `outcome` and `returned` are None if the client got no response."""

    kind: str
    called: float
    returned: float | None
    argument: Any = None
    outcome: Any = None
    client: str = ""


class _Entry:
    """A call or a return in the linked list of the history."""

    __slots__ = ("after", "before", "bit", "operation", "partner")

    def __init__(self, operation: Operation | None, bit: int) -> None:
        self.operation = operation  # None for a return
        self.bit = bit
        self.partner: _Entry | None = None
        self.before: _Entry = self
        self.after: _Entry | None = None

    def insert_after(self, predecessor: _Entry) -> None:
        self.before, self.after = predecessor, predecessor.after
        predecessor.after = self
        if self.after is not None:
            self.after.before = self

    def remove(self) -> None:
        self.before.after = self.after
        if self.after is not None:
            self.after.before = self.before

    def restore(self) -> None:
        self.before.after = self
        if self.after is not None:
            self.after.before = self


def linearizable(history: Sequence[Operation], model: Model, initial: State) -> bool:
    """Whether some order explains every outcome and keeps each operation after those that had
    returned before it was called."""
    head = _linked_list(history)
    unexplained = sum(operation.returned is not None for operation in history)
    states: frozenset[State] = frozenset((initial,))
    explained = 0
    visited: set[tuple[int, frozenset[State]]] = set()
    applied: list[tuple[_Entry, frozenset[State]]] = []
    entry = head.after
    while unexplained:
        if entry is None or entry.operation is None:  # an unexplained operation returned
            if not applied:
                return False
            entry, states = applied.pop()
            explained &= ~entry.bit
            if entry.partner is not None:
                entry.partner.restore()
                unexplained += 1
            entry.restore()
            entry = entry.after
            continue
        operation = entry.operation
        next_states = frozenset(after for state in states for after in model(state, operation))
        if not next_states or (explained | entry.bit, next_states) in visited:
            entry = entry.after
            continue
        visited.add((explained | entry.bit, next_states))
        applied.append((entry, states))
        states, explained = next_states, explained | entry.bit
        entry.remove()
        if entry.partner is not None:
            entry.partner.remove()
            unexplained -= 1
        entry = head.after
    return True


def _linked_list(history: Sequence[Operation]) -> _Entry:
    moments: list[tuple[float, int, _Entry]] = []
    for number, operation in enumerate(history):
        call = _Entry(operation, 1 << number)
        # A call at the time of another's return is concurrent with it.
        moments.append((operation.called, 0, call))
        if operation.returned is not None:
            call.partner = _Entry(None, 0)
            moments.append((operation.returned, 1, call.partner))
    head = last = _Entry(None, 0)
    for _, _, entry in sorted(moments, key=lambda moment: moment[:2]):
        entry.insert_after(last)
        last = entry
    return head


# The model of one object behind an API server.

Stored: TypeAlias = tuple[int | None, str] | None
"""Version (None if unknown) and value of an object; None if it does not exist."""

Answer: TypeAlias = tuple[Literal["ok", "absent", "exists", "conflict"], int | None, str]


def register(state: Stored, operation: Operation) -> Iterable[Stored]:
    """One object. Operations, their arguments and outcomes:

    get      -> ("ok", version, value) | ("absent", ...)
    create   value -> ("ok", version, value) | ("exists", ...)
    put      (value, expected version or None) -> ("ok", ...) | ("conflict", ...) | ("absent", ...)
             writes nothing if the value is the same
    delete   -> ("ok", ...) | ("absent", ...)

    An outcome of None: the client got no response; the operation took effect or was refused.
    """
    if operation.outcome is None:
        return _next_states_without_outcome(state, operation)
    status, version, value = operation.outcome
    if status == "absent":
        return (state,) if state is None else ()
    if status == "exists":
        return () if state is None else (state,)
    if operation.kind == "create":
        return ((version, operation.argument),) if state is None else ()
    if state is None:
        return ()
    if operation.kind == "get":
        is_current = state[1] == value and state[0] in (None, version)
        return ((version, value),) if is_current else ()
    if operation.kind == "delete":
        return (None,)
    value_put, expected = operation.argument
    if status == "conflict":
        return (state,) if expected is not None and state[0] != expected else ()
    if expected is not None and state[0] not in (None, expected):
        return ()
    if state[1] == value_put:
        return ((version, value_put),) if state[0] in (None, version) else ()
    return ((version, value_put),) if state[0] is None or version > state[0] else ()


def _next_states_without_outcome(state: Stored, operation: Operation) -> Iterable[Stored]:
    if operation.kind == "create":
        return ((None, operation.argument),) if state is None else (state,)
    if state is None or operation.kind == "get":
        return (state,)
    if operation.kind == "delete":
        return (state, None)
    value_put, expected = operation.argument
    if state[1] == value_put or (expected is not None and state[0] not in (None, expected)):
        return (state,)
    return (state, (None, value_put))
