"""Sets of field paths in the form in which managedFields keeps them, and what is done with them.

A set is a nested dict, FieldsV1 itself: a key is one step of a path (`f:name` a field,
`k:{"name":"x"}` an item of a list by its keys, `v:"x"` one by its value, `i:0` one by its place);
an empty dict below a key says that the path ends there, `.` that it does although others go on.
At the root an empty dict is the empty set. Sets are values: nothing here changes one it was given,
and results may share parts with it. Knows no object. Mirrors the fieldpath package of
sigs.k8s.io/structured-merge-diff.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from typing import Any, TypeAlias

import orjson

from kapiserver.api.go_format import plain_text
from kapiserver.api.types import Value

Fields: TypeAlias = dict[str, Any]
"""A set of paths, or the part of one below a step."""
Step: TypeAlias = str

SELF = "."
END: Fields = {}
"""Below a step: the path ends here, and no other goes on. Shared, never changed."""


def field_step(name: str) -> Step:
    """The step to a field."""
    return f"f:{name}"


@functools.lru_cache(maxsize=16_384, typed=True)
def name_step(key: str, value: str | int | bool) -> Step:
    """The step to the item of a list that has this one key."""
    return key_step({key: value})


def key_step(keys: dict[str, Value]) -> Step:
    """The step to the item of a list that has these keys."""
    return "k:" + _text(keys)


def value_step(value: Value) -> Step:
    """The step to an item of a set."""
    return "v:" + _text(value)


def _text(value: Value) -> str:
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    except TypeError:  # bytes that are no text, out of CBOR
        return plain_text(
            json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        )


def is_member(node: Fields) -> bool:
    """Whether a path ends at this node (one below a step, not a root)."""
    return not node or SELF in node


def node_of(children: Fields, *, member: bool) -> Fields | None:
    """The node with these children, at which a path ends or not; None when there is nothing."""
    if not children:
        return END if member else None
    if member:
        return {SELF: END, **children}
    return children


def union(one: Fields, other: Fields) -> Fields:
    """All paths of both."""
    if not one or one is other:
        return other
    if not other:
        return one
    found = dict(one)
    for step, theirs in other.items():
        ours = one.get(step)
        found[step] = theirs if ours is None else _union(ours, theirs)
    return found


def _union(one: Fields, other: Fields) -> Fields:
    if one == other:
        return one
    both = union(_children(one), _children(other))
    node = node_of(both, member=is_member(one) or is_member(other))
    assert node is not None
    return node


def difference(one: Fields, other: Fields) -> Fields:
    """The paths of the first that are not in the second."""
    if not other or not one:
        return one
    found = {}
    for step, ours in one.items():
        theirs = other.get(step)
        node = ours if theirs is None else _difference(ours, theirs)
        if node is not None:
            found[step] = node
    return found


def _difference(one: Fields, other: Fields) -> Fields | None:
    member = is_member(one) and not is_member(other)
    return node_of(difference(_children(one), _children(other)), member=member)


def without(one: Fields, other: Fields) -> Fields:
    """The paths of the first that neither are in the second nor lie below one that is."""
    if not other or not one:
        return one
    found = {}
    for step, ours in one.items():
        theirs = other.get(step)
        if theirs is None:
            found[step] = ours
        elif not is_member(theirs):
            node = node_of(without(_children(ours), _children(theirs)), member=is_member(ours))
            if node is not None:
                found[step] = node
    return found


def intersection(one: Fields, other: Fields) -> Fields:
    """The paths that both have."""
    found = {}
    for step, ours in one.items():
        theirs = other.get(step)
        if theirs is None or step == SELF:
            continue
        node = node_of(
            intersection(_children(ours), _children(theirs)),
            member=is_member(ours) and is_member(theirs),
        )
        if node is not None:
            found[step] = node
    return found


def _children(node: Fields) -> Fields:
    if SELF not in node:
        return node
    return {step: below for step, below in node.items() if step != SELF}


def children(node: Fields) -> Fields:
    """What lies below a node, as a set of its own."""
    return _children(node)


def sort_steps(fields: Fields) -> Fields:
    """The same set with its steps in the order in which they are written."""
    if len(fields) > 1:
        steps = sorted(fields)
        # Fields stand in the order of their names, behind the dot; only values have one of theirs.
        if not steps[-1].startswith(("f:", SELF)):
            steps.sort(key=_place)
        return {step: sort_steps(below) if (below := fields[step]) else END for step in steps}
    return {step: sort_steps(below) if below else END for step, below in fields.items()}


_PLACES = {".": 0, "f": 1, "k": 2, "v": 3, "i": 4}


def _place(step: Step) -> tuple[Any, ...]:
    place = _PLACES.get(step[0], 5)
    if place < 2:
        return (place, step)
    value = orjson.loads(step[2:])
    if isinstance(value, dict):
        return (place, [(name, _rank(one)) for name, one in sorted(value.items())])
    return (place, _rank(value))


def _rank(value: Value) -> tuple[int, Any]:
    """The order of values of several kinds: numbers, strings, booleans, others, null."""
    if isinstance(value, bool):
        return (2, value)
    if isinstance(value, int | float):
        return (0, value)
    if isinstance(value, str):
        return (1, value)
    return (4, "") if value is None else (3, orjson.dumps(value).decode())


def format_paths(fields: Fields, before: str = "") -> Iterator[str]:
    """The paths in order, as messages show them: `.spec.containers[name="x"].image`."""
    for step, below in sorted(fields.items(), key=lambda pair: _place(pair[0])):
        if step == SELF:
            continue
        path = before + format_step(step)
        if is_member(below):
            yield path
        yield from format_paths(below, path)


def format_step(step: Step) -> str:
    """One step as messages show it."""
    kind, content = step[0], step[2:]
    if kind == "f":
        return f".{content}"
    if kind == "k":
        keys = sorted(orjson.loads(content).items())
        return "[" + ",".join(f"{name}={orjson.dumps(one).decode()}" for name, one in keys) + "]"
    if kind == "v":
        return f"[={content}]"
    return f"[{content}]"


def validate(fields: Value, depth: int = 250) -> Fields:
    """Check a set that a client sent and return it. Raises ValueError."""
    if not isinstance(fields, dict):
        raise ValueError("a set of fields is an object")
    if not depth:
        raise ValueError("a set of fields is nested too deep")
    for step, below in fields.items():
        if step == SELF:
            if below != END:
                raise ValueError("nothing lies below the end of a path")
            continue
        if not step.startswith("f:"):
            _check_step(step)
        if below != END:
            validate(below, depth - 1)
    return fields


def _check_step(step: Step) -> None:
    kind, colon, content = step.partition(":")
    if not colon or kind not in ("k", "v", "i"):
        raise ValueError(f"unrecognized key type in {step!r}")
    value = orjson.loads(content)
    if kind == "k" and not (isinstance(value, dict) and value):
        raise ValueError(f"{step!r} has no keys")
    if kind == "i" and not isinstance(value, int):
        raise ValueError(f"{step!r} has no index")
