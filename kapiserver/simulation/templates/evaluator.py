"""Evaluates the syntax tree of a template. Mirrors text/template/exec.go."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kapiserver.simulation.templates.errors import MAX_DEPTH, Budget, TemplateError, check_size
from kapiserver.simulation.templates.syntax import (
    Action,
    Branch,
    Call,
    Command,
    Dot,
    Fields,
    Invocation,
    Jump,
    Literal,
    Node,
    Operand,
    Pipeline,
    Text,
    Variable,
)
from kapiserver.simulation.templates.values import is_true, type_name, written

_NO_ARGUMENT = object()


class _Break(Exception):
    """`break` ends the innermost range."""


class _Continue(Exception):
    """`continue` ends one round of the innermost range."""


class Evaluation:
    """One evaluation: its output, its variables, and what it may still use.

    templates  the nodes of each template, by name
    functions  the functions by name, which raise TemplateError
    """

    def __init__(
        self,
        templates: Mapping[str, Sequence[Node]],
        functions: Mapping[str, Callable[..., Any]],
        data: Any,
    ) -> None:
        self._templates = templates
        self._functions = functions
        self._budget = Budget()
        self._variables: list[tuple[str, Any]] = [("$", data)]
        self._depth = 0
        self._size = 0
        self._parts: list[str] = []

    @property
    def output(self) -> str:
        """What has been written."""
        return "".join(self._parts)

    def run(self, nodes: Sequence[Node], dot: Any) -> None:
        """Evaluate nodes. Raises TemplateError."""
        for node in nodes:
            self._budget.spend()
            match node:
                case Text(text):
                    self._write(text)
                case Action(pipeline):
                    value = self._value(pipeline, dot)
                    if not pipeline.variables:
                        self._write(written(value))
                case Branch():
                    self._branch(node, dot)
                case Invocation(name, pipeline):
                    self._invoke(name, None if pipeline is None else self._value(pipeline, dot))
                case Jump(word):
                    raise _Break if word == "break" else _Continue

    def _write(self, text: str) -> None:
        self._size += len(text)
        check_size(self._size)
        self._parts.append(text)

    # Nodes.

    def _branch(self, node: Branch, dot: Any) -> None:
        count = len(self._variables)
        value = self._value(node.pipeline, dot, is_loop=node.word == "range")
        if node.word == "range":
            self._range(node, value, dot)
        elif is_true(value):
            self.run(node.body, value if node.word == "with" else dot)
        else:
            self.run(node.otherwise, dot)
        del self._variables[count:]

    def _range(self, node: Branch, value: Any, dot: Any) -> None:
        count, is_empty = len(self._variables), True
        for key, item in _rounds(value):
            is_empty = False
            self._budget.spend()
            self._set_loop_variables(node.pipeline, key, item)
            try:
                self.run(node.body, item)
            except _Continue:
                continue
            except _Break:
                break
            finally:
                del self._variables[count:]
        if is_empty:
            self.run(node.otherwise, dot)

    def _set_loop_variables(self, pipeline: Pipeline, key: Any, item: Any) -> None:
        """Set the variables of a range: the last one is the item, the one before it the key."""
        values = (key, item)[-len(pipeline.variables) :] if pipeline.variables else ()
        for name, value in zip(pipeline.variables, values, strict=True):
            self._set(name, value, is_assigned=pipeline.is_assigned)

    def _invoke(self, name: str, data: Any) -> None:
        nodes = self._templates.get(name)
        if nodes is None:
            raise TemplateError(f'template "{name}" not defined')
        if self._depth >= MAX_DEPTH:
            raise TemplateError("templates call each other too deeply")
        outer, self._variables = self._variables, [("$", data)]
        self._depth += 1
        self.run(nodes, data)
        self._depth -= 1
        self._variables = outer

    # Pipelines.

    def _value(self, pipeline: Pipeline, dot: Any, *, is_loop: bool = False) -> Any:
        """Return the value of a pipeline; set its variables unless they are those of a range."""
        value: Any = _NO_ARGUMENT
        for command in pipeline.commands:
            value = self._command(command, dot, value)
        if not is_loop:
            for name in pipeline.variables:
                self._set(name, value, is_assigned=pipeline.is_assigned)
        return value

    def _set(self, name: str, value: Any, *, is_assigned: bool) -> None:
        if is_assigned:
            for index in range(len(self._variables) - 1, -1, -1):
                if self._variables[index][0] == name:
                    self._variables[index] = (name, value)
                    return
        self._variables.append((name, value))

    def _command(self, command: Command, dot: Any, last: Any) -> Any:
        """Return the value of a command; `last` is that of the command before it."""
        self._budget.spend()
        first, *operands = command.operands
        if isinstance(first, Call):
            return self._call(first.name, operands, dot, last)
        if operands or last is not _NO_ARGUMENT:
            raise TemplateError("can't give argument to non-function")
        return self._operand(first, dot)

    def _call(self, name: str, operands: Sequence[Operand], dot: Any, last: Any) -> Any:
        if name in ("and", "or"):
            return self._logic(name, operands, dot, last)
        args = [self._operand(operand, dot) for operand in operands]
        if last is not _NO_ARGUMENT:
            args.append(last)
        value = self._functions[name](*args)
        self._budget.spend_for(value)
        return value

    def _logic(self, name: str, operands: Sequence[Operand], dot: Any, last: Any) -> Any:
        """Return the first argument that decides, or else the last one."""
        if not operands and last is _NO_ARGUMENT:
            raise TemplateError(f"wrong number of args for {name}: want at least 1 got 0")
        value: Any = None
        for operand in operands:
            value = self._operand(operand, dot)
            if is_true(value) == (name == "or"):
                return value
        return value if last is _NO_ARGUMENT else last

    def _operand(self, operand: Operand, dot: Any) -> Any:
        self._budget.spend()
        match operand:
            case Literal(value):
                return value
            case Dot():
                return dot
            case Variable(name):
                return next(value for other, value in reversed(self._variables) if other == name)
            case Call(name):
                return self._call(name, (), dot, _NO_ARGUMENT)
            case Fields(inner, names):
                value = self._operand(inner, dot)
                for name in names:
                    value = _field(value, name)
                return value
        return self._value(operand, dot)


def _field(value: Any, name: str) -> Any:
    """Return a field of a map; nil if it is missing. Raises TemplateError."""
    if isinstance(value, dict):
        return value.get(name)
    if value is None:
        raise TemplateError(f"nil pointer evaluating interface {{}}.{name}")
    raise TemplateError(f"can't evaluate field {name} in type {type_name(value)}")


def _rounds(value: Any) -> Iterable[tuple[Any, Any]]:
    """Return the keys and items of a range. Raises TemplateError."""
    if value is None:
        return ()
    if isinstance(value, list):
        return enumerate(value)
    if isinstance(value, dict):
        return ((key, value[key]) for key in sorted(value))
    if isinstance(value, int) and not isinstance(value, bool):
        return ((number, number) for number in range(value))
    raise TemplateError(f"range can't iterate over {written(value)}")
