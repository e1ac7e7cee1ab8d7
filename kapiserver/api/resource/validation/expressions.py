"""The expressions that select devices: whether they compile, and what they may cost.

The language is loaded at the first expression. Mirrors k8s.io/dynamic-resource-allocation/cel.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from kapiserver.api import names
from kapiserver.api.errors import FieldError, Path, forbidden, invalid, required, too_long
from kapiserver.api.resource.validation.common import items
from kapiserver.api.types import Tree

if TYPE_CHECKING:
    from kapiserver.api.cel.cel_types import CelType

_SELECTORS_MAX = 32
_LENGTH_MAX = 10 * 1024
_COST_MAX = 1_000_000
_LENGTHS_MAX = 128 * 1024
"""Of all different expressions of an object: to compile them takes half a second. kube-apiserver
compiles as much as fits into a request."""
_TOO_COMPLEX = "too complex, exceeds cost limit"

Check: TypeAlias = Callable[[str, Path], Iterator[FieldError]]
"""Checks one expression at its path."""


def compiled(expression: str, path: Path) -> Iterator[FieldError]:
    """A new expression: it is true or false of a device, and bounded."""
    if names.byte_length(expression) > _LENGTH_MAX:
        yield too_long(path, _LENGTH_MAX)
        return
    found = _cost_or_problem(expression)
    if isinstance(found, str):
        yield invalid(path, expression, found)
    elif found > _COST_MAX:
        yield forbidden(path, _TOO_COMPLEX)


def trusted(_expression: str, _path: Path) -> Iterator[FieldError]:
    """An expression that was there before."""
    return iter(())


def _refused(_expression: str, path: Path) -> Iterator[FieldError]:
    yield forbidden(path, _TOO_COMPLEX)


def check_for(check_for: Iterable[Tree]) -> Check:
    """How to check the expressions of all these selectors of an object."""
    texts = {(one.get("cel") or {}).get("expression") or "" for one in check_for}
    return compiled if sum(map(len, texts)) <= _LENGTHS_MAX else _refused


def selectors(selectors: Sequence[Tree] | None, check: Check, path: Path) -> Iterator[FieldError]:
    """Which devices fit."""

    def selector(selector: Tree, where: Path) -> Iterator[FieldError]:
        cel = selector.get("cel")
        if cel is None:
            yield required(where / "cel")
        else:
            yield from check(cel.get("expression") or "", where / "cel" / "expression")

    return items(selectors, _SELECTORS_MAX, selector, path)


@functools.lru_cache(256)
def _cost_or_problem(expression: str) -> int | str:
    from kapiserver.api.cel.program import Uncompilable, compile_expression

    try:
        program = compile_expression(expression, {"device": _device()})
    except Uncompilable as error:
        return f"compilation failed: {error}"
    if program.kind.name not in ("bool", "dyn"):
        return f"must evaluate to bool or the unknown type, not {program.kind}"
    return program.max_cost


@functools.cache
def _device() -> CelType:
    from kapiserver.api.cel import cel_types as k

    def text(maximum: int) -> CelType:
        return replace(k.STRING, size=maximum)

    def by_domain(values: CelType) -> CelType:
        return k.map_of(text(63), k.map_of(text(32), values, 32), 32)

    fields = {
        "driver": text(63),
        "attributes": by_domain(replace(k.DYN, size=64)),
        "capacity": by_domain(k.CelType("quantity")),
        "allowMultipleAllocations": k.BOOL,
    }
    return k.CelType("object", (), 1, fields=fields, names={name: name for name in fields})
