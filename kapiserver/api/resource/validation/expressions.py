"""Validation of CEL expressions that select devices: compilation and estimated cost.

The CEL modules are loaded with the first expression. Mirrors
k8s.io/dynamic-resource-allocation/cel.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from kapiserver.api import names
from kapiserver.api.errors import FieldError, Path, forbidden, invalid, required, too_long
from kapiserver.api.resource.device_selectors import MAX_COST, compile_selector
from kapiserver.api.resource.validation.common import validate_items
from kapiserver.api.types import Tree

_SELECTORS_MAX = 32
_LENGTH_MAX = 10 * 1024
_TOTAL_LENGTH_MAX = 128 * 1024
"""The maximum total length of the different expressions of an object, whose compilation takes half
a second. kube-apiserver has no such limit: it compiles until the request times out."""
_TOO_COMPLEX = "too complex, exceeds cost limit"

ExpressionRule: TypeAlias = Callable[[str, Path], Iterator[FieldError]]
"""Validates an expression at its path."""


def validate_expression(expression: str, path: Path) -> Iterator[FieldError]:
    """Validate a new expression: it must compile to a bool, within the cost limit."""
    if names.byte_length(expression) > _LENGTH_MAX:
        yield too_long(path, _LENGTH_MAX)
        return
    result = _cost_or_error(expression)
    if isinstance(result, str):
        yield invalid(path, expression, result)
    elif result > MAX_COST:
        yield forbidden(path, _TOO_COMPLEX)


def accept_expression(_expression: str, _path: Path) -> Iterator[FieldError]:
    """Accept an expression that was stored before."""
    return iter(())


def _reject_expression(_expression: str, path: Path) -> Iterator[FieldError]:
    yield forbidden(path, _TOO_COMPLEX)


def rule_for(selectors: Iterable[Tree]) -> ExpressionRule:
    """Return the rule for the expressions of these selectors, which are all selectors of an
    object."""
    texts = {(selector.get("cel") or {}).get("expression") or "" for selector in selectors}
    return validate_expression if sum(map(len, texts)) <= _TOTAL_LENGTH_MAX else _reject_expression


def validate_selectors(
    selectors: Sequence[Tree] | None, check: ExpressionRule, path: Path
) -> Iterator[FieldError]:
    """Validate the selectors of a request or of a device class."""

    def validate_selector(selector: Tree, path: Path) -> Iterator[FieldError]:
        cel = selector.get("cel")
        if cel is None:
            yield required(path / "cel")
        else:
            yield from check(cel.get("expression") or "", path / "cel" / "expression")

    return validate_items(selectors, _SELECTORS_MAX, validate_selector, path)


@functools.lru_cache(256)
def _cost_or_error(expression: str) -> int | str:
    from kapiserver.api.cel.program import CompileError

    try:
        program = compile_selector(expression)
    except CompileError as error:
        return f"compilation failed: {error}"
    if program.cel_type.name not in ("bool", "dyn"):
        return f"must evaluate to bool or the unknown type, not {program.cel_type}"
    return program.max_cost
