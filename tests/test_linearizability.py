"""The linearizability checker: histories that it accepts and refuses."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.linearizability import Operation, linearizable, register


def get(called, returned, version=None, value=""):
    outcome = ("ok", version, value) if version else ("absent", None, "")
    return Operation("get", called, returned, None, outcome)


def create(called, returned, value, version=None, *, exists=False):
    has_outcome = version is not None or exists
    outcome = ("exists" if exists else "ok", version, value) if has_outcome else None
    return Operation("create", called, returned if has_outcome else None, value, outcome)


def put(called, returned, value, expected=None, version=None, status="ok"):
    has_outcome = version is not None or status != "ok"
    outcome = (status, version, value) if has_outcome else None
    return Operation("put", called, returned if has_outcome else None, (value, expected), outcome)


def delete(called, returned, status="ok"):
    return Operation("delete", called, returned, None, (status, None, ""))


POSSIBLE = [
    ("nothing", []),
    ("absent at first", [get(0, 1), create(2, 3, "a", 5), get(4, 5, 5, "a")]),
    ("concurrent reads may differ", [create(0, 9, "a", 5), get(1, 2), get(3, 4, 5, "a")]),
    ("either of two writers wins", [
        create(0, 1, "a", 5), put(2, 9, "b", 5, 6), put(2, 9, "c", 5, status="conflict"),
        get(10, 11, 6, "b")]),
    ("a create among creates", [
        create(0, 9, "a", 5), create(0, 9, "b", exists=True), get(10, 11, 5, "a")]),
    ("an unheard create happened", [create(0, 1, "a"), get(2, 3, 7, "a")]),
    ("an unheard create happens late", [create(0, 1, "a"), get(2, 3), get(4, 5, 7, "a")]),
    ("an unheard create never happened", [create(0, 1, "a"), get(2, 3)]),
    ("an unheard put happened, its version is learned", [
        create(0, 1, "a", 5), put(2, 3, "b", 5), get(4, 5, 8, "b"), put(6, 7, "c", 8, 9)]),
    ("the same value writes nothing", [create(0, 1, "a", 5), put(2, 3, "a", None, 5)]),
    ("gone and back", [create(0, 1, "a", 5), delete(2, 3), get(4, 5), create(6, 7, "a", 9)]),
]  # fmt: skip

IMPOSSIBLE = [
    ("a read of nothing that was written", [get(0, 1, 5, "a")]),
    ("a read of what comes later", [get(0, 1, 5, "a"), create(2, 3, "a", 5)]),
    ("a stale read", [
        create(0, 1, "a", 5), put(2, 3, "b", 5, 6), get(4, 5, 5, "a")]),
    ("reads that go back", [
        create(0, 1, "a", 5), put(2, 9, "b", 5, 6), get(3, 4, 6, "b"), get(5, 6, 5, "a")]),
    ("two creates", [create(0, 9, "a", 5), create(0, 9, "b", 6)]),
    ("a lost update", [
        create(0, 1, "a", 5), put(2, 9, "b", 5, 6), put(2, 9, "c", 5, 7)]),
    ("a conflict without a reason", [
        create(0, 1, "a", 5), put(2, 3, "b", 5, status="conflict")]),
    ("a write forgotten", [create(0, 1, "a", 5), get(2, 3)]),
    ("a delete forgotten", [create(0, 1, "a", 5), delete(2, 3), get(4, 5, 5, "a")]),
    ("nothing to delete", [create(0, 1, "a", 5), delete(2, 3, "absent")]),
    ("a write taken for the present state that was not", [
        create(0, 1, "a", 5), put(2, 3, "b", 5, 6), put(4, 5, "a", None, 5)]),
    ("a version under another's value", [create(0, 1, "a", 5), get(2, 3, 5, "b")]),
    ("an unheard put seen and unseen", [
        create(0, 1, "a", 5), put(2, 3, "b", 5), get(4, 5, 8, "b"), get(6, 7, 5, "a")]),
    ("an unheard create before its call", [get(0, 1, 7, "a"), create(2, 3, "a")]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "history"), POSSIBLE, ids=[name for name, _ in POSSIBLE])
def test_possible(name, history):
    """A history that some order explains is linearizable."""
    assert linearizable(history, register, None)


@pytest.mark.parametrize(("name", "history"), IMPOSSIBLE, ids=[name for name, _ in IMPOSSIBLE])
def test_impossible(name, history):
    """A history that no order explains is not linearizable, also with unrelated operations
    added."""
    assert not linearizable(history, register, None)
    unrelated = [get(100 + n, 200 + n, 5, "z") for n in range(3)]
    assert not linearizable([*history, *unrelated], register, None)


def brute_force(history):
    """The same check by trying every order of every subset of the operations without a response."""
    finished = [operation for operation in history if operation.returned is not None]
    pending = [operation for operation in history if operation.returned is None]
    for count in range(len(pending) + 1):
        for performed in itertools.combinations(pending, count):
            for order in itertools.permutations([*finished, *performed]):
                if _in_time(order) and _allowed(order):
                    return True
    return False


def _in_time(order):
    return not any(
        later.returned is not None and later.returned < earlier.called
        for earlier, later in itertools.combinations(order, 2)
    )


def _allowed(order):
    states = {None}
    for operation in order:
        states = {after for state in states for after in register(state, operation)}
    return bool(states)


_moments = st.tuples(st.integers(0, 9), st.integers(0, 6))
_versions = st.integers(5, 7)
_values = st.sampled_from("ab")


@st.composite
def operations(draw):
    called, lasts = draw(_moments)
    returned, version, value = called + lasts, draw(_versions), draw(_values)
    letter = draw(st.sampled_from("gcpduUx"))
    return {
        "g": get(called, returned, version, value),
        "c": create(called, returned, value, version),
        "p": put(called, returned, value, draw(st.none() | _versions), version),
        "d": delete(called, returned),
        "u": put(called, returned, value, draw(st.none() | _versions)),
        "U": create(called, returned, value),
        "x": put(called, returned, value, version, status="conflict"),
    }[letter]


@settings(max_examples=150)
@given(st.lists(operations(), max_size=5))
def test_brute_force(history):
    """The checker agrees with the brute-force check on small histories."""
    assert linearizable(history, register, None) is brute_force(history)
