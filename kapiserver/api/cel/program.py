"""Programs: CEL expressions compiled to closures and evaluated within a cost limit.

Costs are charged in advance: one step per node, the steps of its body per iteration of a loop, and
the traversal of texts and lists. Beyond the limit, evaluation ends with CostExceeded, so that the
limit bounds time and memory of any expression. Mirrors github.com/google/cel-go/interpreter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from kapiserver.api.cel import cel_types as k
from kapiserver.api.cel import syntax as s
from kapiserver.api.cel import values as v
from kapiserver.api.cel.cel_types import CelType
from kapiserver.api.cel.checker import Checker
from kapiserver.api.cel.cost import estimate, steps_of
from kapiserver.api.cel.extensions import BASE, Extensions
from kapiserver.api.cel.frames import (
    EVALUATION_ERRORS,
    Frame,
    Run,
    as_bool,
    decide,
    failure,
    spend,
)
from kapiserver.api.cel.functions import Overload, cost_constant, size_one, traversal_cost
from kapiserver.api.cel.loops import LOOPS, pairs
from kapiserver.api.cel.parser import parse
from kapiserver.api.cel.qualifiers import qualify, qualify_if_present
from kapiserver.api.cel.representation import concatenate, converter, list_type_equality
from kapiserver.api.cel.values import NONE, CostExceeded, EvaluationError, Optional, StructValue

_UNSET = object()


class CompileError(ValueError):
    """An expression does not compile; the message has position and reason of each problem."""


class Result(Struct, frozen=True):
    """The result of an evaluation: a value, or a `failure` worded as cel-go words it."""

    value: Any
    cost: int
    failure: str | None = None
    is_exceeded: bool = False


class Program(Struct, frozen=True):
    """A compiled expression.

    cel_type  the type of its value
    free      the variables that it uses
    max_cost  the maximum cost
    """

    cel_type: CelType
    free: frozenset[str]
    max_cost: int
    names: tuple[str, ...]
    size: int
    steps: int
    run: Run

    def evaluate(self, variables: Mapping[str, Any], limit: int) -> Result:
        """Evaluate the expression; variables that are not given are unset."""
        frame: Frame = [limit - self.steps]
        for name in self.names:
            frame.append(variables.get(name, _UNSET))
        frame += [None] * self.size
        value, message, exceeded = None, None, False
        try:
            if frame[0] < 0:
                raise CostExceeded
            value = self.run(frame)
        except (CostExceeded, RecursionError):
            message, exceeded = "operation cancelled: actual cost limit exceeded", True
            frame[0] = min(frame[0], -1)
        except EVALUATION_ERRORS as error:
            message = str(failure(error))
        return Result(value, limit - frame[0], message, exceeded)


def compile_expression(
    source: str, variables: Mapping[str, CelType], extensions: Extensions = BASE
) -> Program:
    """Compile an expression. Raises CompileError."""
    checker = Checker(variables, extensions)
    node, cel_type = _check(source, checker)
    names = tuple(name for name in variables if name in checker.free)
    maker = _Compiler(checker)
    run = maker.make(node, {name: index + 1 for index, name in enumerate(names)}, len(names) + 1)
    return Program(
        cel_type,
        frozenset(checker.free),
        estimate(node, variables),
        names,
        maker.max_slots,
        steps_of(node),
        run,
    )


def check_expression(source: str, variables: Mapping[str, CelType]) -> CelType:
    """Return the type of an expression's value. Raises CompileError."""
    return _check(source, Checker(variables))[1]


def _check(source: str, checker: Checker) -> tuple[s.Node, CelType]:
    try:
        node = parse(source, bindings=checker.extensions.bindings)
        cel_type = checker.check(node)
    except s.CelSyntaxError as problem:
        raise CompileError(_format_problems(source, [(problem.position, str(problem))])) from None
    except RecursionError:
        raise CompileError(
            _format_problems(source, [(0, "expression recursion limit exceeded")])
        ) from None
    if checker.problems:
        raise CompileError(
            _format_problems(source, sorted(checker.problems, key=lambda item: item[0]))
        )
    return node, cel_type


def _format_problems(source: str, problems: list[tuple[int, str]]) -> str:
    source_lines = source.split("\n")
    lines = []
    for position, message in problems:
        line = source.count("\n", 0, position)
        column = position - (source.rfind("\n", 0, position) + 1)
        source_line = source_lines[line].replace("\t", " ")
        lines.append(f"ERROR: <input>:{line + 1}:{column + 1}: {message}")
        lines.append(f" | {source_line}")
        lines.append(f" | {'.' * column}^")
    return "\n".join(lines)


def _size(value: Any) -> int:
    return len(value) if isinstance(value, str | bytes | list | dict) else 1


class _Compiler:
    """Compiles nodes to closures; `max_slots` is the number of slots for the variables of loops."""

    def __init__(self, checker: Checker) -> None:
        self.checker = checker
        self.max_slots = 0

    def make(self, node: s.Node, slots: dict[str, int], top: int) -> Run:
        """Return the closure of a node. `top` is the first free slot of the frame."""
        run: Run = getattr(self, f"_make_{type(node).__name__.lower()}")(node, slots, top)
        return run

    def _make_literal(self, node: s.Literal, _slots: dict[str, int], _top: int) -> Run:
        value = node.value
        return lambda _: value

    def _make_ident(self, node: s.Ident, slots: dict[str, int], _top: int) -> Run:
        slot, name = slots.get(node.name), node.name
        if slot is None:
            type_value = k.TYPE_NAMES[name]
            return lambda _: type_value

        def run(frame: Frame) -> Any:
            value = frame[slot]
            if value is _UNSET:
                raise EvaluationError(f"no such attribute(s): {name}")
            return value

        return _convert_result(run, node.cel_type) if name in self.checker.variables else run

    def _make_select(self, node: s.Select, slots: dict[str, int], top: int) -> Run:
        if node.variable:
            variable = s.Ident(position=node.position, name=node.variable, cel_type=node.cel_type)
            return self._make_ident(variable, slots, top)
        if node.operand.cel_type is None:
            type_value = k.TYPE_NAMES[_type_name(node)]
            return lambda _: type_value
        operand, cel_type = self.make(node.operand, slots, top), node.operand.cel_type
        inner = cel_type.params[0] if cel_type.name == "optional" else cel_type
        raw, field = inner.names.get(node.field, node.field), node.field
        find = _finder(operand, raw, null_is_absent=inner.null_is_absent)
        if node.is_test:
            return lambda frame: find(frame).has_value
        if node.is_optional or inner is not cel_type:
            return _convert_optional(find, node.cel_type.params[0])

        def run(frame: Frame) -> Any:
            value = operand(frame)
            try:
                part = value[raw]
            except KeyError:
                raise EvaluationError(f"no such key: {field}") from None
            except TypeError:
                return qualify(value, field)
            if part is None and inner.null_is_absent:
                raise EvaluationError(f"no such key: {field}")
            return part

        return _convert_result(run, node.cel_type)

    def _make_call(self, node: s.Call, slots: dict[str, int], top: int) -> Run:
        args = [self.make(arg, slots, top) for arg in node.operands]
        special = _SPECIAL.get(node.function)
        if special is not None:
            return special(args)
        types = [arg.cel_type for arg in node.operands]
        list_operation = _list_operation(node.function, types, args)
        if list_operation is not None:
            return list_operation
        if node.function in _QUALIFIERS:
            return _convert_result(_call_one(node.overloads[0], args), node.cel_type)
        direct = len(node.overloads) == 1 and all(
            _is_certain(cel_type) or k.is_parameter(arg)
            for cel_type, arg in zip(types, node.overloads[0].args, strict=True)
        )
        if direct and node.function in _EQUALITY:
            return _compare_equal(node.overloads[0], args, expected=node.function == "_==_")
        return _call_one(node.overloads[0], args) if direct else _call_any(node, args)

    def _make_listnode(self, node: s.ListNode, slots: dict[str, int], top: int) -> Run:
        items, optional = [self.make(item, slots, top) for item in node.items], node.optional
        if not optional:
            return lambda frame: [item(frame) for item in items]

        def run(frame: Frame) -> Any:
            values = []
            for index, item in enumerate(items):
                value = item(frame)
                if index not in optional:
                    values.append(value)
                elif value.has_value:
                    values.append(value.value)
            return values

        return run

    def _make_struct(self, node: s.Struct, slots: dict[str, int], top: int) -> Run:
        fields = [(name, self.make(value, slots, top)) for name, value in node.fields]
        optional, name = node.optional, node.name

        def run(frame: Frame) -> StructValue:
            struct = StructValue(name)
            for index, (field, value) in enumerate(fields):
                field_value = value(frame)
                if index not in optional:
                    struct[field] = field_value
                elif field_value.has_value:
                    struct[field] = field_value.value
            return struct

        return run

    def _make_mapnode(self, node: s.MapNode, slots: dict[str, int], top: int) -> Run:
        entries = [
            (self.make(key, slots, top), self.make(value, slots, top))
            for key, value in node.entries
        ]
        optional = node.optional

        def run(frame: Frame) -> Any:
            entries_by_key: dict[Any, Any] = {}
            for index, (key, value) in enumerate(entries):
                name, entry_value = _key(key(frame)), value(frame)
                if index in optional:
                    if not entry_value.has_value:
                        continue
                    entry_value = entry_value.value
                if name in entries_by_key:
                    raise EvaluationError(f"Failed with repeated key: {name}")
                entries_by_key[name] = entry_value
            return entries_by_key

        return run

    def _make_loop(self, node: s.Loop, slots: dict[str, int], top: int) -> Run:
        range_ = self.make(node.range, slots, top)
        count = len(node.variables)
        inner = slots | {name: top + index for index, name in enumerate(node.variables)}
        self.max_slots = max(self.max_slots, top + count)
        body = self.make(node.body, inner, top + count)
        filter_ = self.make(node.filter, inner, top + count) if node.filter is not None else None
        cost = 1 + steps_of(node.body) + (steps_of(node.filter) if node.filter is not None else 0)

        def rounds(frame: Frame) -> Iterator[Any]:
            for key, value in pairs(range_(frame), count):
                spend(frame, cost)
                frame[top] = key if count == 2 else value
                if count == 2:
                    frame[top + 1] = value
                if filter_ is None or as_bool(filter_(frame)):
                    yield key if count == 2 else value

        return LOOPS[node.macro](rounds, body)

    def _make_bind(self, node: s.Bind, slots: dict[str, int], top: int) -> Run:
        value = self.make(node.value, slots, top)
        self.max_slots = max(self.max_slots, top + 1)
        body = self.make(node.body, slots | {node.variable: top}, top + 1)
        macro = node.macro

        def run(frame: Frame) -> Any:
            bound = value(frame)
            if macro == "bind":
                frame[top] = bound
                return body(frame)
            if not bound.has_value:
                return NONE
            frame[top] = bound.value
            return Optional(body(frame)) if macro == "optMap" else body(frame)

        return run


def _type_name(node: s.Node) -> str:
    if isinstance(node, s.Select):
        return f"{_type_name(node.operand)}.{node.field}"
    return node.name if isinstance(node, s.Ident) else ""


def _convert_result(run: Run, cel_type: CelType) -> Run:
    convert = converter(cel_type)
    return run if convert is None else lambda frame: convert(run(frame))


def _finder(operand: Run, raw: str, *, null_is_absent: bool) -> Run:
    """Return the closure of the optional selection of a field."""

    def run(frame: Frame) -> Optional:
        part = qualify_if_present(operand(frame), raw)
        return NONE if null_is_absent and part.value is None else part

    return run


def _convert_optional(run: Run, cel_type: CelType) -> Run:
    convert = converter(cel_type)
    if convert is None:
        return run

    def converted(frame: Frame) -> Optional:
        part = run(frame)
        return Optional(convert(part.value)) if part.has_value else NONE

    return converted


def _key(value: Any) -> Any:
    if isinstance(value, str | int):
        return value
    raise EvaluationError(f"unsupported key type: {v.type_name(value)}")


def _is_certain(cel_type: CelType) -> bool:
    return cel_type.name != "dyn" and all(map(_is_certain, cel_type.params))


def _call_one(overload: Overload, args: list[Run]) -> Run:
    run, cost = overload.run, overload.cost
    if (
        isinstance(run, v.MeteredFunction)
        or cost is not cost_constant
        or overload.size is not size_one
    ):
        return lambda frame: _call_charged(frame, overload, [arg(frame) for arg in args])
    if len(args) == 2:
        left, right = args
        return lambda frame: run(left(frame), right(frame))
    return lambda frame: run(*[arg(frame) for arg in args])


def _compare_equal(overload: Overload, args: list[Run], *, expected: bool) -> Run:
    """Return the closure of `==` or `!=`. It compares and charges texts itself, because most
    expressions compare texts; the overload does the same for all values."""
    left, right = args

    def run(frame: Frame) -> Any:
        value, other = left(frame), right(frame)
        if type(value) is not str or type(other) is not str:
            return _call_charged(frame, overload, [value, other])
        length, shorter = len(value), min(len(value), len(other))
        if length >= 10 or not shorter:  # the step of the node pays for other texts
            spend(frame, traversal_cost(shorter) - 1 + length // 10)
        return (value == other) is expected

    return run


_EQUALITY = ("_==_", "_!=_")
_QUALIFIERS = ("_[_]", "_[?_]")
"""Operators whose overloads all run the same function."""


def _call_any(node: s.Call, args: list[Run]) -> Run:
    overloads = node.overloads

    def run(frame: Frame) -> Any:
        values = [arg(frame) for arg in args]
        for overload in overloads:
            if all(map(k.is_instance, overload.args, values)):
                return _call_charged(frame, overload, values)
        raise EvaluationError("no such overload")

    return run


def _call_charged(frame: Frame, overload: Overload, values: list[Any]) -> Any:
    if overload.cost is not cost_constant:
        spend(frame, overload.cost([_size(value) for value in values]) - 1)
    if isinstance(overload.run, v.MeteredFunction):
        return overload.run.run(lambda cost: spend(frame, cost), *values)
    result = overload.run(*values)
    if overload.size is not size_one:
        spend(frame, _size(result) // 10)
    return result


def _list_operation(function: str, types: list[CelType], args: list[Run]) -> Run | None:
    # Lists of type set and map, whose order is irrelevant.
    if function in _EQUALITY and any(map(list_type_equality, types)):
        equal = list_type_equality(types[0]) or list_type_equality(types[1])
        assert equal is not None
        expected = function == "_==_"

        def compared(frame: Frame) -> bool:
            values = [arg(frame) for arg in args]
            return equal(values[0], values[1], lambda cost: spend(frame, cost)) == expected

        return compared
    if function == "_+_" and types[0].list_type:

        def joined(frame: Frame) -> Any:
            values = [arg(frame) for arg in args]
            return concatenate(types[0], values[0], values[1], lambda cost: spend(frame, cost))

        return joined
    return None


def _logical_operator(decisive: bool) -> Callable[[list[Run]], Run]:
    # One operand can decide the result even if another fails.
    return lambda args: lambda frame: decide(frame, args, decisive=decisive)


def _condition(args: list[Run]) -> Run:
    condition, when_true, when_false = args
    return lambda frame: when_true(frame) if as_bool(condition(frame)) else when_false(frame)


_SPECIAL = {"_&&_": _logical_operator(False), "_||_": _logical_operator(True), "_?_:_": _condition}
