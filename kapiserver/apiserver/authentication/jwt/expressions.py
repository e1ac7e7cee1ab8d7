"""CEL expressions over the claims of a token, and over the user made of them.

The CEL modules are loaded with the first expression. Mirrors pkg/authentication/cel of
k8s.io/apiserver.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from kapiserver.apiserver.authentication.authenticator import InvalidCredentials

if TYPE_CHECKING:
    from kapiserver.api.cel.cel_types import CelType
    from kapiserver.api.cel.program import Program

Variable: TypeAlias = Literal["claims", "user"]
CLAIMS: Variable = "claims"
USER: Variable = "user"
_COST_LIMIT = 200_000
"""The maximum cost of one evaluation, some 30 milliseconds."""


@functools.lru_cache(maxsize=1024)
def compile_program(expression: str, variable: Variable) -> Program:
    """Compile an expression over the claims or the user. Raises CompileError."""
    from kapiserver.api.cel.program import compile_expression

    return compile_expression(expression, {variable: _types()[variable]})


def evaluate(expression: str, variable: Variable, value: Mapping[str, Any]) -> Any:
    """Return the value of a valid expression. Raises InvalidCredentials."""
    result = compile_program(expression, variable).evaluate({variable: value}, _COST_LIMIT)
    if result.failure is not None:
        raise InvalidCredentials(f"expression '{expression}' resulted in error: {result.failure}")
    return result.value


@functools.cache
def _types() -> Mapping[Variable, CelType]:
    from kapiserver.api.cel import cel_types as k

    strings = k.list_of(k.STRING)
    fields = {
        "username": k.STRING,
        "uid": k.STRING,
        "groups": strings,
        "extra": k.map_of(k.STRING, strings),
    }
    user = k.CelType("object", fields=fields, names={name: name for name in fields})
    return {CLAIMS: k.map_of(k.STRING, k.DYN), USER: user}


def selects(expression: str, variable: str, name: str) -> bool:
    """Report whether an expression has `variable.name`. False for one that does not parse."""
    from kapiserver.api.cel.parser import parse
    from kapiserver.api.cel.syntax import CelSyntaxError

    try:
        return _selects(parse(expression), variable, name)
    except (CelSyntaxError, RecursionError):
        return False


def _selects(node: Any, variable: str, name: str) -> bool:
    from kapiserver.api.cel import syntax

    if isinstance(node, list | tuple):
        return any(_selects(child, variable, name) for child in node)
    if not isinstance(node, syntax.Node):
        return False
    if isinstance(node, syntax.Select) and node.field == name:
        operand = node.operand
        if isinstance(operand, syntax.Ident) and operand.name == variable:
            return True
    return any(_selects(getattr(node, part), variable, name) for part in node.__struct_fields__)
