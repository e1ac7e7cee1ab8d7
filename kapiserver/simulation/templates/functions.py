"""Functions of templates: how their arguments are checked, and those that Go has itself.

A function is plain Python; its annotations say which values it takes. An argument of another type
is an error, as in Go. `and` and `or` are not here: the evaluator skips their arguments.
"""

from __future__ import annotations

import html
import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote_plus

from kapiserver.simulation.templates.errors import TemplateError
from kapiserver.simulation.templates.printf import sprint, sprintf
from kapiserver.simulation.templates.values import equals, is_less, is_true, kind_name, type_name

_TYPES: Mapping[str, tuple[type, str]] = {
    "str": (str, "string"),
    "int": (int, "int"),
    "bool": (bool, "bool"),
    "list": (list, "[]interface {}"),
    "dict": (dict, "map[string]interface {}"),
}
"""The annotations that are checked, and their names in Go; others take any value."""


class Function:
    """A function with the number and the types of its arguments."""

    def __init__(self, name: str, run: Callable[..., Any]) -> None:
        self._name = name
        self._run = run
        parameters = inspect.signature(run).parameters.values()
        self._types = [
            _TYPES.get(str(parameter.annotation).partition("[")[0]) for parameter in parameters
        ]
        self._is_variadic = any(
            parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters
        )
        self._most = math.inf if self._is_variadic else len(self._types)
        self._least = sum(
            parameter.default is parameter.empty and parameter.kind is not parameter.VAR_POSITIONAL
            for parameter in parameters
        )

    def __call__(self, *args: Any) -> Any:
        """Call the function. Raises TemplateError."""
        if not self._least <= len(args) <= self._most:
            raise TemplateError(f"wrong number of args for {self._name}: got {len(args)}")
        for index, value in enumerate(args):
            expected = self._types[min(index, len(self._types) - 1)]
            if expected is not None and not _is_instance(value, expected[0]):
                raise TemplateError(
                    f"{self._name}: wrong type for value; expected {expected[1]}; "
                    f"got {type_name(value)}"
                )
        try:
            return self._run(*args)
        except TemplateError as error:
            raise TemplateError(f"error calling {self._name}: {error}") from None
        except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
            raise TemplateError(f"error calling {self._name}: {error}") from None


def _is_instance(value: Any, expected: type) -> bool:
    if expected is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, expected)


def functions(*tables: Mapping[str, Callable[..., Any]]) -> dict[str, Function]:
    """Return the functions of tables by name; later tables replace those of earlier ones."""
    return {name: Function(name, run) for table in tables for name, run in table.items()}


# The functions of Go.


def _eq(value: Any, *others: Any) -> bool:
    if not others:
        raise TemplateError("missing argument for comparison")
    return any(equals(value, other) for other in others)


def _index(value: Any, *keys: Any) -> Any:
    for key in keys:
        value = _item(value, key)
    return value


def _item(value: Any, key: Any) -> Any:
    kind = kind_name(value)
    if kind == "invalid":
        raise TemplateError("index of untyped nil")
    if kind == "map":
        if not isinstance(key, str):
            raise TemplateError(f"value has type {type_name(key)}; should be string")
        return value.get(key)
    if kind not in ("slice", "string"):
        raise TemplateError(f"can't index item of type {type_name(value)}")
    if kind_name(key) != "int":
        raise TemplateError(f"cannot index slice/array with type {type_name(key)}")
    if not 0 <= key < len(value):
        raise TemplateError(f"index out of range: {key}")
    return value[key] if kind == "slice" else value.encode()[key]


def _slice(value: Any, *bounds: Any) -> Any:
    if kind_name(value) not in ("slice", "string"):
        raise TemplateError(f"can't slice item of type {type_name(value)}")
    ends = [0, len(value)]
    if len(bounds) > len(ends):
        raise TemplateError("too many slice indexes")
    for position, bound in enumerate(bounds):
        if kind_name(bound) != "int" or not 0 <= bound <= len(value):
            raise TemplateError(f"index out of range: {bound}")
        ends[position] = bound
    if ends[0] > ends[1]:
        raise TemplateError(f"invalid slice index: {ends[0]} > {ends[1]}")
    return value[ends[0] : ends[1]]


def _len(value: Any) -> int:
    if kind_name(value) not in ("slice", "map", "string"):
        raise TemplateError(f"len of type {type_name(value)}")
    return len(value.encode() if isinstance(value, str) else value)


def _println(*values: Any) -> str:
    return " ".join(sprint(value) for value in values) + "\n"


def _javascript(*values: Any) -> str:
    return sprint(*values).translate(_JAVASCRIPT)


_JAVASCRIPT = str.maketrans(
    {"\\": "\\\\", "'": "\\'", '"': '\\"', "<": "\\u003C", ">": "\\u003E", "&": "\\u0026",
     "=": "\\u003D", "\n": "\\u000A", "\r": "\\u000D", "\t": "\\u0009"}
)  # fmt: skip

BUILTINS: Mapping[str, Callable[..., Any]] = {
    "eq": _eq,
    "ge": lambda value, other: not is_less(value, other),
    "gt": lambda value, other: not (is_less(value, other) or equals(value, other)),
    "html": lambda *values: html.escape(sprint(*values)),
    "index": _index,
    "js": _javascript,
    "le": lambda value, other: is_less(value, other) or equals(value, other),
    "len": _len,
    "lt": is_less,
    "ne": lambda value, other: not equals(value, other),
    "not": lambda value: not is_true(value),
    "print": sprint,
    "printf": sprintf,
    "println": _println,
    "slice": _slice,
    "urlquery": lambda *values: quote_plus(sprint(*values)),
}
