"""Match conditions of authorization webhooks: CEL expressions over a SubjectAccessReviewSpec.

The CEL modules are loaded with the first expression. Mirrors pkg/authorization/cel of
k8s.io/apiserver.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kapiserver.api.types import Tree

if TYPE_CHECKING:
    from kapiserver.api.cel.cel_types import CelType
    from kapiserver.api.cel.program import Program

_REQUEST = "request"
_COST_LIMIT = 200_000
"""The maximum cost of one evaluation, some 30 milliseconds."""


class ConditionFailed(Exception):
    """The evaluation of an expression failed."""


@functools.lru_cache(maxsize=1024)
def compile_condition(expression: str) -> Program:
    """Compile an expression. Raises ValueError for one that does not compile, or whose
    value is not a boolean."""
    from kapiserver.api.cel.program import compile_expression

    program = compile_expression(expression, {_REQUEST: _request_type()})
    if program.cel_type.name not in ("bool", "dyn"):
        raise ValueError("must evaluate to bool")
    return program


def matches(expressions: Sequence[str], spec: Tree) -> bool:
    """Return whether all expressions are true of a spec. Raises ConditionFailed if one fails and
    none is false."""
    failures = []
    for expression in expressions:
        result = compile_condition(expression).evaluate({_REQUEST: spec}, _COST_LIMIT)
        if result.value is False:
            return False
        if result.value is not True:
            failure = result.failure or "the value is not a boolean"
            failures.append(f"expression '{expression}' resulted in error: {failure}")
    if failures:
        raise ConditionFailed(", ".join(failures))
    return True


def _object(**fields: CelType) -> CelType:
    from kapiserver.api.cel.cel_types import CelType

    return CelType("object", fields=fields, names={name: name for name in fields})


@functools.cache
def _request_type() -> CelType:
    from kapiserver.api.cel import cel_types as k

    strings = k.list_of(k.STRING)
    requirement = _object(key=k.STRING, operator=k.STRING, values=strings)
    selector = _object(rawSelector=k.STRING, requirements=k.list_of(requirement))
    names = ("namespace", "verb", "group", "version", "resource", "subresource", "name")
    resource = _object(
        fieldSelector=selector, labelSelector=selector, **dict.fromkeys(names, k.STRING)
    )
    return _object(
        resourceAttributes=resource,
        nonResourceAttributes=_object(path=k.STRING, verb=k.STRING),
        user=k.STRING,
        groups=strings,
        extra=k.map_of(k.STRING, strings),
        uid=k.STRING,
    )
