"""Expressions, compiled to closures and evaluated within a limit.

What an expression does is charged before it is done: each of its nodes a step, each round of a
loop the steps of its body, texts and lists what it takes to go through them. Beyond the limit it
ends with CostExceeded, so the limit bounds time and memory whatever was written. Mirrors
github.com/google/cel-go/interpreter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from kapiserver.api.cel import cel_types as k
from kapiserver.api.cel import syntax as s
from kapiserver.api.cel import values as v
from kapiserver.api.cel.cel_types import CelType
from kapiserver.api.cel.checker import Checker
from kapiserver.api.cel.cost import estimate, steps_of
from kapiserver.api.cel.functions import Overload, flat, size_one
from kapiserver.api.cel.parser import parse
from kapiserver.api.cel.representation import converter, merged, unordered
from kapiserver.api.cel.values import NONE, CostExceeded, Failed, Optional

Frame: TypeAlias = list[Any]
"""What is left of the limit, then the variables."""
Run: TypeAlias = Callable[[Frame], Any]
_UNSET = object()
FAULTS = (Failed, TypeError, AttributeError, ValueError, OverflowError)
"""What a function raises; all but Failed only for values that are not what their kind says, as an
object that was stored before its schema forbade it."""


def _failure(error: Exception) -> Failed:
    return error if isinstance(error, Failed) else Failed("no such overload")


class Uncompilable(ValueError):
    """A text is no expression of these variables; says where and why, a line a problem."""


@dataclass(frozen=True, slots=True)
class Result:
    """What came of an expression: `failure` says why there is no value, in cel-go's words."""

    value: Any
    cost: int
    failure: str | None = None
    is_exceeded: bool = False


@dataclass(frozen=True, slots=True)
class Program:
    """An expression that can be evaluated.

    kind      the type of its value
    free      the variables that it uses
    max_cost  the most it can cost
    """

    kind: CelType
    free: frozenset[str]
    max_cost: int
    names: tuple[str, ...]
    size: int
    steps: int
    run: Run

    def evaluate(self, variables: Mapping[str, Any], limit: int) -> Result:
        """The value for the variables; those not given are not there."""
        frame: Frame = [limit - self.steps] + [variables.get(name, _UNSET) for name in self.names]
        frame += [None] * self.size
        value, failure, exceeded = None, None, False
        try:
            if frame[0] < 0:
                raise CostExceeded
            value = self.run(frame)
        except (CostExceeded, RecursionError):
            failure, exceeded = "operation cancelled: actual cost limit exceeded", True
            frame[0] = min(frame[0], -1)
        except FAULTS as error:
            failure = str(_failure(error))
        return Result(value, limit - frame[0], failure, exceeded)


def compile_expression(source: str, variables: Mapping[str, CelType]) -> Program:
    """The program of a text. Raises Uncompilable."""
    checker = Checker(variables)
    try:
        node = parse(source)
        kind = checker.check(node)
    except s.SyntaxProblem as problem:
        raise Uncompilable(_told(source, [(problem.position, str(problem))])) from None
    except RecursionError:
        raise Uncompilable(_told(source, [(0, "expression recursion limit exceeded")])) from None
    if checker.problems:
        raise Uncompilable(_told(source, sorted(checker.problems, key=lambda one: one[0])))
    names = tuple(variables)
    maker = _Maker(checker)
    run = maker.make(node, {name: place + 1 for place, name in enumerate(names)}, len(names) + 1)
    return Program(
        kind,
        frozenset(checker.free),
        estimate(node, variables),
        names,
        maker.most,
        steps_of(node),
        run,
    )


def _told(source: str, problems: list[tuple[int, str]]) -> str:
    lines = source.split("\n")
    told = []
    for position, message in problems:
        line = source.count("\n", 0, position)
        column = position - (source.rfind("\n", 0, position) + 1)
        shown = lines[line].replace("\t", " ")
        told.append(f"ERROR: <input>:{line + 1}:{column + 1}: {message}")
        told.append(f" | {shown}")
        told.append(f" | {'.' * column}^")
    return "\n".join(told)


def _spend(frame: Frame, cost: int) -> None:
    frame[0] -= cost
    if frame[0] < 0:
        raise CostExceeded


def _size(value: Any) -> int:
    return len(value) if isinstance(value, str | bytes | list | dict) else 1


class _Maker:
    """Makes closures; `most` is how many places the variables of loops take."""

    def __init__(self, checker: Checker) -> None:
        self.checker = checker
        self.most = 0

    def make(self, node: s.Node, places: dict[str, int], top: int) -> Run:
        """The closure of a node. `top` is the first free place of the frame."""
        made: Run = getattr(self, f"_make_{type(node).__name__.lower()}")(node, places, top)
        return made

    def _make_literal(self, node: s.Literal, _places: dict[str, int], _top: int) -> Run:
        value = node.value
        return lambda _: value

    def _make_ident(self, node: s.Ident, places: dict[str, int], _top: int) -> Run:
        place, name = places.get(node.name), node.name
        if place is None:
            named = k.TYPE_NAMES[name]
            return lambda _: named

        def run(frame: Frame) -> Any:
            value = frame[place]
            if value is _UNSET:
                raise Failed(f"no such attribute(s): {name}")
            return value

        return _converted(run, node.kind) if name in self.checker.variables else run

    def _make_select(self, node: s.Select, places: dict[str, int], top: int) -> Run:
        if node.operand.kind is None:
            named = k.TYPE_NAMES[_type_name(node)]
            return lambda _: named
        operand, kind = self.make(node.operand, places, top), node.operand.kind
        inner = kind.params[0] if kind.name == "optional" else kind
        raw, shown = inner.names.get(node.field, node.field), node.field
        if node.is_test:
            return lambda frame: _has(operand(frame), raw)

        def run(frame: Frame) -> Any:
            value = operand(frame)
            try:
                return value[raw]
            except (KeyError, TypeError):
                pass
            if isinstance(value, Optional):
                return _optional_part(value, raw)
            if isinstance(value, dict):
                raise Failed(f"no such key: {shown}")
            raise Failed("no such overload")

        if node.is_optional or inner is not kind:
            return _converted_optional(operand, raw, node.kind.params[0])
        return _converted(run, node.kind)

    def _make_call(self, node: s.Call, places: dict[str, int], top: int) -> Run:
        args = [self.make(arg, places, top) for arg in node.operands]
        special = _SPECIAL.get(node.function)
        if special is not None:
            return special(args)
        kinds = [arg.kind for arg in node.operands]
        own = _of_lists(node.function, kinds, args)
        if own is not None:
            return own
        direct = len(node.overloads) == 1 and all(_is_certain(kind) for kind in kinds)
        call = _call_one(node.overloads[0], args) if direct else _call_any(node, args)
        return _converted(call, node.kind) if node.function == "_[_]" else call

    def _make_listnode(self, node: s.ListNode, places: dict[str, int], top: int) -> Run:
        items, optional = [self.make(item, places, top) for item in node.items], node.optional
        if not optional:
            return lambda frame: [item(frame) for item in items]

        def run(frame: Frame) -> Any:
            found = []
            for place, item in enumerate(items):
                value = item(frame)
                if place not in optional:
                    found.append(value)
                elif value.is_there:
                    found.append(value.value)
            return found

        return run

    def _make_mapnode(self, node: s.MapNode, places: dict[str, int], top: int) -> Run:
        entries = [
            (self.make(key, places, top), self.make(value, places, top))
            for key, value in node.entries
        ]
        optional = node.optional

        def run(frame: Frame) -> Any:
            found: dict[Any, Any] = {}
            for place, (key, value) in enumerate(entries):
                name, one = _key(key(frame)), value(frame)
                if place in optional:
                    if not one.is_there:
                        continue
                    one = one.value
                if name in found:
                    raise Failed(f"Failed with repeated key: {name}")
                found[name] = one
            return found

        return run

    def _make_loop(self, node: s.Loop, places: dict[str, int], top: int) -> Run:
        over = self.make(node.range, places, top)
        count = len(node.variables)
        inner = places | {name: top + index for index, name in enumerate(node.variables)}
        self.most = max(self.most, top + count)
        body = self.make(node.body, inner, top + count)
        kept = self.make(node.filter, inner, top + count) if node.filter is not None else None
        cost = 1 + steps_of(node.body) + (steps_of(node.filter) if node.filter is not None else 0)

        def rounds(frame: Frame) -> Iterator[Any]:
            for key, value in _pairs(over(frame), count):
                _spend(frame, cost)
                frame[top] = key if count == 2 else value
                if count == 2:
                    frame[top + 1] = value
                if kept is None or _truth(kept(frame)):
                    yield key if count == 2 else value

        return _LOOPS[node.macro](rounds, body)

    def _make_bind(self, node: s.Bind, places: dict[str, int], top: int) -> Run:
        value = self.make(node.value, places, top)
        self.most = max(self.most, top + 1)
        body = self.make(node.body, places | {node.variable: top}, top + 1)
        macro = node.macro

        def run(frame: Frame) -> Any:
            one = value(frame)
            if macro == "bind":
                frame[top] = one
                return body(frame)
            if not one.is_there:
                return NONE
            frame[top] = one.value
            return Optional(body(frame)) if macro == "optMap" else body(frame)

        return run


def _type_name(node: s.Node) -> str:
    if isinstance(node, s.Select):
        return f"{_type_name(node.operand)}.{node.field}"
    return node.name if isinstance(node, s.Ident) else ""


def _converted(run: Run, kind: CelType) -> Run:
    convert = converter(kind)
    return run if convert is None else lambda frame: convert(run(frame))


def _converted_optional(operand: Run, raw: str, kind: CelType) -> Run:
    convert = converter(kind)

    def run(frame: Frame) -> Any:
        found = _optional_part(operand(frame), raw)
        if convert is None or not found.is_there:
            return found
        return Optional(convert(found.value))

    return run


def _optional_part(value: Any, raw: str) -> Optional:
    if isinstance(value, Optional):
        value = value.value if value.is_there else {}
    if not isinstance(value, dict):
        raise Failed("no such overload")
    return Optional(value[raw]) if raw in value else NONE


def _has(value: Any, raw: str) -> bool:
    if isinstance(value, Optional):
        value = value.value if value.is_there else {}
    if not isinstance(value, dict):
        raise Failed("no such overload")
    return raw in value


def _key(value: Any) -> Any:
    if isinstance(value, str | int):
        return value
    raise Failed(f"unsupported key type: {v.type_name(value)}")


def _truth(value: Any) -> bool:
    if value is True or value is False:
        return bool(value)
    raise Failed("no such overload")


def _pairs(value: Any, count: int) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, list):
        return enumerate(value)
    if isinstance(value, dict):
        return iter(value.items()) if count == 2 else ((key, key) for key in value)
    raise Failed("no such overload")


def _is_certain(kind: CelType) -> bool:
    return kind.name != "dyn" and all(map(_is_certain, kind.params))


def _call_one(overload: Overload, args: list[Run]) -> Run:
    run, cost = overload.run, overload.cost
    if isinstance(run, v.Metered) or cost is not flat or overload.size is not size_one:
        return lambda frame: _charged(frame, overload, [arg(frame) for arg in args])
    if len(args) == 2:
        one, other = args
        return lambda frame: run(one(frame), other(frame))
    return lambda frame: run(*[arg(frame) for arg in args])


def _call_any(node: s.Call, args: list[Run]) -> Run:
    overloads = node.overloads

    def run(frame: Frame) -> Any:
        values = [arg(frame) for arg in args]
        for overload in overloads:
            if all(map(k.holds, overload.args, values)):
                return _charged(frame, overload, values)
        raise Failed("no such overload")

    return run


def _charged(frame: Frame, overload: Overload, values: list[Any]) -> Any:
    if overload.cost is not flat:
        _spend(frame, overload.cost([_size(value) for value in values]) - 1)
    if isinstance(overload.run, v.Metered):
        return overload.run.run(lambda cost: _spend(frame, cost), *values)
    result = overload.run(*values)
    if overload.size is not size_one:
        _spend(frame, _size(result) // 10)
    return result


def _of_lists(function: str, kinds: list[CelType], args: list[Run]) -> Run | None:
    # Lists whose order means nothing: sets and maps of Kubernetes.
    if function in ("_==_", "_!=_") and any(map(unordered, kinds)):
        alike = unordered(kinds[0]) or unordered(kinds[1])
        assert alike is not None
        wanted = function == "_==_"

        def compared(frame: Frame) -> bool:
            values = [arg(frame) for arg in args]
            return alike(values[0], values[1], lambda cost: _spend(frame, cost)) == wanted

        return compared
    if function == "_+_" and kinds[0].list_type:

        def joined(frame: Frame) -> Any:
            values = [arg(frame) for arg in args]
            return merged(kinds[0], values[0], values[1], lambda cost: _spend(frame, cost))

        return joined
    return None


def _junction(decisive: bool) -> Callable[[list[Run]], Run]:
    # What one operand decides holds even if another has no value.
    def make(args: list[Run]) -> Run:
        def run(frame: Frame) -> bool:
            failed: Failed | None = None
            for arg in args:
                try:
                    if _truth(arg(frame)) is decisive:
                        return decisive
                except FAULTS as error:
                    failed = failed or _failure(error)
            if failed is not None:
                raise failed
            return not decisive

        return run

    return make


def _condition(args: list[Run]) -> Run:
    condition, one, other = args
    return lambda frame: one(frame) if _truth(condition(frame)) else other(frame)


_SPECIAL = {"_&&_": _junction(False), "_||_": _junction(True), "_?_:_": _condition}
Rounds: TypeAlias = Callable[[Frame], Iterator[Any]]


def _quantified(decisive: bool) -> Callable[[Rounds, Run], Run]:
    def make(rounds: Rounds, body: Run) -> Run:
        def run(frame: Frame) -> bool:
            failed: Failed | None = None
            for _ in rounds(frame):
                try:
                    if _truth(body(frame)) is decisive:
                        return decisive
                except FAULTS as error:
                    failed = failed or _failure(error)
            if failed is not None:
                raise failed
            return not decisive

        return run

    return make


def _exactly_one(rounds: Rounds, body: Run) -> Run:
    return lambda frame: sum(_truth(body(frame)) for _ in rounds(frame)) == 1


def _mapped(rounds: Rounds, body: Run) -> Run:
    return lambda frame: [body(frame) for _ in rounds(frame)]


def _kept(rounds: Rounds, body: Run) -> Run:
    return lambda frame: [value for value in rounds(frame) if _truth(body(frame))]


def _mapped_values(rounds: Rounds, body: Run) -> Run:
    return lambda frame: {key: body(frame) for key in rounds(frame)}


def _mapped_entries(rounds: Rounds, body: Run) -> Run:
    def run(frame: Frame) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for _ in rounds(frame):
            entries = body(frame)
            _spend(frame, len(entries))
            for key, value in entries.items():
                if key in found:
                    raise Failed(f"insert failed: key {key} already exists")
                found[key] = value
        return found

    return run


_LOOPS: dict[str, Callable[[Rounds, Run], Run]] = {
    "all": _quantified(False),
    "exists": _quantified(True),
    "exists_one": _exactly_one,
    "existsOne": _exactly_one,
    "map": _mapped,
    "filter": _kept,
    "transformList": _mapped,
    "transformMap": _mapped_values,
    "transformMapEntry": _mapped_entries,
}
