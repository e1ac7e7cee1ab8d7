"""sprig's functions for defaults, conditions and types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kapiserver.simulation.templates.errors import TemplateError
from kapiserver.simulation.templates.values import kind_name, type_name


def _all(*values: Any) -> bool:
    return all(values)


def _any(*values: Any) -> bool:
    return any(values)


def _coalesce(*values: Any) -> Any:
    return next((value for value in values if value), None)


def _default(default: Any, *given: Any) -> Any:
    return given[0] if given and given[0] else default


def _fail(message: str) -> str:
    raise TemplateError(message)


def _ternary(when_true: Any, when_false: Any, condition: bool) -> Any:
    return when_true if condition else when_false


LOGIC: Mapping[str, Callable[..., Any]] = {
    "all": _all,
    "any": _any,
    "coalesce": _coalesce,
    "default": _default,
    "empty": lambda value=None: not value,
    "fail": _fail,
    "kindIs": lambda name, value: kind_name(value) == name,
    "kindOf": kind_name,
    "ternary": _ternary,
    "typeIs": lambda name, value: type_name(value) == name,
    "typeIsLike": lambda name, value: type_name(value) in (name, f"*{name}"),
    "typeOf": type_name,
}
