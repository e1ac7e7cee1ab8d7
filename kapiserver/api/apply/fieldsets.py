"""Sets of field paths in the format of managedFields, and operations on them.

A set is a nested dict, FieldsV1 itself. A key is one step of a path: `f:name` a field,
`k:{"name":"x"}` a list item by its keys, `v:"x"` an item by its value, `i:0` an item by its index.
An empty dict below a key ends the path; `.` marks the end of a path that other paths continue. At
the root, an empty dict is the empty set. Sets are values: no function here changes its arguments,
and results may share parts with them. Knows no object. Mirrors the fieldpath package of
sigs.k8s.io/structured-merge-diff.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import orjson

from kapiserver.api.go_format import replace_surrogates
from kapiserver.api.types import Value

Fields: TypeAlias = dict[str, Any]
"""A set of paths, or the subset below a step."""
Step: TypeAlias = str

SELF = "."
_MAX_STEP_DEPTH = 100
"""The maximum number of brackets in the value of one step."""
_MAX_DEPTH = 250
_MAX_CACHED_TEXT = 4096
END: Fields = {}
"""The node at which a path ends and no other path continues. Shared: never change it."""


def field_step(name: str) -> Step:
    """Return the step to a field."""
    return f"f:{name}"


_MAX_CACHED_NAME = 256


def name_step(key: str, value: str | int | bool) -> Step:
    """Return the step to a list item that has a single key."""
    if isinstance(value, str) and len(value) > _MAX_CACHED_NAME:
        return key_step({key: value})
    return _name_step_cached(key, value)


@functools.lru_cache(maxsize=16_384, typed=True)
def _name_step_cached(key: str, value: str | int | bool) -> Step:
    return key_step({key: value})


def key_step(keys: dict[str, Value]) -> Step:
    """Return the step to a list item by its keys."""
    return "k:" + _json(keys)


def value_step(value: Value) -> Step:
    """Return the step to an item of a set by its value."""
    return "v:" + _json(value)


def _json(value: Value) -> str:
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    except TypeError:  # strings from CBOR that are not UTF-8
        return replace_surrogates(
            json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        )


def is_member(node: Fields) -> bool:
    """Report whether a path ends at this node (a node below a step, not a root)."""
    return not node or SELF in node


def node_of(children: Fields, *, member: bool) -> Fields | None:
    """Return the node with these children; `member` if a path ends at it. None if it would be
    empty."""
    if not children:
        return END if member else None
    if member:
        return {SELF: END, **children}
    return children


def union(left: Fields, right: Fields) -> Fields:
    """Return the paths that are in either set."""
    if not left or left is right:
        return right
    if not right:
        return left
    result = dict(left)
    for step, right_node in right.items():
        left_node = left.get(step)
        result[step] = right_node if left_node is None else _union(left_node, right_node)
    return result


def _union(left: Fields, right: Fields) -> Fields:
    if left == right:
        return left
    merged = union(children(left), children(right))
    node = node_of(merged, member=is_member(left) or is_member(right))
    assert node is not None
    return node


def difference(left: Fields, right: Fields) -> Fields:
    """Return the paths of the first set that are not in the second."""
    if not right or not left:
        return left
    result = {}
    for step, left_node in left.items():
        right_node = right.get(step)
        if right_node is None:
            result[step] = left_node
        elif left_node or (right_node and SELF not in right_node):
            node = _difference(left_node, right_node)
            if node is not None:
                result[step] = node
    return result


def _difference(left: Fields, right: Fields) -> Fields | None:
    member = is_member(left) and not is_member(right)
    return node_of(difference(children(left), children(right)), member=member)


def without(left: Fields, right: Fields) -> Fields:
    """Return the paths of the first set that are neither in the second nor below a path of it."""
    if not right or not left:
        return left
    result = {}
    for step, left_node in left.items():
        right_node = right.get(step)
        if right_node is None:
            result[step] = left_node
        elif not is_member(right_node):
            node = node_of(
                without(children(left_node), children(right_node)), member=is_member(left_node)
            )
            if node is not None:
                result[step] = node
    return result


def intersection(left: Fields, right: Fields) -> Fields:
    """Return the paths that are in both sets."""
    result = {}
    for step, left_node in left.items():
        right_node = right.get(step)
        if right_node is None or step == SELF:
            continue
        node = node_of(
            intersection(children(left_node), children(right_node)),
            member=is_member(left_node) and is_member(right_node),
        )
        if node is not None:
            result[step] = node
    return result


def is_subset(left: Fields, right: Fields) -> bool:
    """Report whether all paths of the first set are in the second."""
    for step, left_node in left.items():
        right_node = right.get(step)
        if right_node is None:
            return False
        if not left_node:
            if right_node and SELF not in right_node:
                return False
        elif not is_subset(left_node, right_node):
            return False
    return True


def children(node: Fields) -> Fields:
    """Return the paths below a node as a set."""
    if SELF not in node:
        return node
    return {step: below for step, below in node.items() if step != SELF}


def sort_steps(fields: Fields) -> Fields:
    """Return the same set with its steps in the order in which they are serialized."""
    return {
        step: sort_steps(below) if (below := fields[step]) else END
        for step in (serialized_order(fields) if len(fields) > 1 else fields)
    }


def serialized_order(steps: Iterable[Step]) -> list[Step]:
    """Return steps in the order in which they are serialized."""
    ordered = sorted(steps)
    # Fields are sorted by name, after the dot; only steps with values need a key.
    if ordered and not ordered[-1].startswith(("f:", SELF)):
        ordered.sort(key=_step_rank)
    return ordered


_KIND_RANKS = {".": 0, "f": 1, "k": 2, "v": 3, "i": 4}


def _step_rank(step: Step) -> tuple[Any, ...]:
    return _step_rank_cached(step) if len(step) <= _MAX_CACHED_NAME else _compute_step_rank(step)


def _compute_step_rank(step: Step) -> tuple[Any, ...]:
    rank = _KIND_RANKS.get(step[0], 5)
    if rank < 2:
        return (rank, step)
    return (rank, _rank(orjson.loads(step[2:])))


_step_rank_cached = functools.lru_cache(maxsize=4096)(_compute_step_rank)


def _rank(value: Value) -> tuple[int, Any]:
    """Return the sort key of a value of any type: numbers, strings, booleans, lists, objects,
    null."""
    if isinstance(value, bool):
        return (2, value)
    if isinstance(value, int | float):
        return (0, value)
    if isinstance(value, str):
        return (1, value)
    if isinstance(value, list):
        return (3, [_rank(item) for item in value])
    if isinstance(value, dict):
        return (4, [(name, _rank(item)) for name, item in sorted(value.items())])
    return (5, "")


def format_paths(fields: Fields, before: str = "") -> Iterator[str]:
    """Yield the paths as messages show them, such as `.spec.containers[name="x"].image`: those that
    end at a level before those that go on."""
    steps = sorted(children(fields).items(), key=lambda pair: _step_rank(pair[0]))
    for step, below in steps:
        if is_member(below):
            yield before + format_step(step)
    for step, below in steps:
        yield from format_paths(below, before + format_step(step))


def format_step(step: Step) -> str:
    """Format one step as messages show it."""
    kind, content = step[0], step[2:]
    if kind == "f":
        return f".{content}"
    if kind == "k":
        keys = sorted(orjson.loads(content).items())
        return "[" + ",".join(f"{name}={_format_key(key_value)}" for name, key_value in keys) + "]"
    if kind == "v":
        return f"[={content}]"
    return f"[{content}]"


def _format_key(value: Value) -> str:
    """Format the value of a key as structured-merge-diff does, which writes maps without braces."""
    if isinstance(value, list):
        return f"[{','.join(map(_format_key, value))}]"
    if isinstance(value, dict):
        return "".join(f"{name}={_format_key(item)}" for name, item in sorted(value.items()))
    return orjson.dumps(value).decode()


def validate(fields: Value, text: bytes | None) -> Fields:
    """Check a set that a client sent and return it; `text` is its `text_of`. Raises ValueError."""
    if text is None:
        _validate(fields, _MAX_DEPTH)
    else:
        _validate_text(text)
    checked: Fields = fields
    return checked


def text_of(fields: Value) -> bytes | None:
    """Return the JSON of a set as the key of a cache; None if it is too long for one, or no JSON
    that orjson writes."""
    try:
        text = orjson.dumps(fields)
    except orjson.JSONEncodeError:
        return None
    return text if len(text) <= _MAX_CACHED_TEXT else None


@functools.lru_cache(maxsize=1024)
def _validate_text(text: bytes) -> None:
    """Raise ValueError if the JSON is not a set. The same sets are checked at each write."""
    _validate(orjson.loads(text), _MAX_DEPTH)


def _validate(fields: Value, depth: int) -> None:
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
            _validate(below, depth - 1)


def _check_step(step: Step) -> None:
    kind, colon, content = step.partition(":")
    if not colon or kind not in ("k", "v", "i"):
        raise ValueError(f"unrecognized key type in {step!r}")
    value = orjson.loads(content)
    if content.count("[") + content.count("{") > _MAX_STEP_DEPTH:
        raise ValueError(f"the value of a {kind} step is nested too deep")
    if kind == "k" and not (isinstance(value, dict) and value):
        raise ValueError(f"{step!r} has no keys")
    if kind == "i" and not isinstance(value, int):
        raise ValueError(f"{step!r} has no index")
