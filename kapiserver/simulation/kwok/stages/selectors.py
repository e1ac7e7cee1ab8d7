"""The selector of a Stage: requirements that an object fulfils.

Mirrors selector.go of kwok's pkg/utils/expression.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from kapiserver.api.accessors import annotations_of, labels_of
from kapiserver.api.types import Tree
from kapiserver.simulation.kwok.stages.expressions import StageError, cel, jq

Requirement: TypeAlias = Callable[[Tree, float], bool]
"""Whether an object fulfils a requirement at a time."""

_TEXTS = {True: "true", False: "false"}


def requirements_of(selector: Tree) -> list[Requirement]:
    """Return the requirements of a selector, the cheapest first. Raises StageError."""
    requirements: list[Requirement] = []
    if labels := selector.get("matchLabels"):
        requirements.append(lambda obj, _now: _has_all(labels_of(obj), labels))
    if annotations := selector.get("matchAnnotations"):
        requirements.append(lambda obj, _now: _has_all(annotations_of(obj), annotations))
    for expression in selector.get("matchExpressions") or ():
        requirements.append(_expression(expression))
    return requirements


def _has_all(values: Mapping[str, str], required: Mapping[str, str]) -> bool:
    return all(values.get(name) == value for name, value in required.items())


def _expression(expression: Tree) -> Requirement:
    if expression.get("jq"):
        return _comparison(expression["jq"])
    if expression.get("cel"):
        results = cel(expression["cel"].get("expression") or "")
        return lambda obj, now: results(obj, now) == [True]
    if expression.get("key"):
        return _comparison(expression)
    raise StageError("invalid expression")


def _comparison(requirement: Tree) -> Requirement:
    """Return the requirement of a key, an operator and values."""
    results = jq(requirement.get("key") or "")
    operator, values = requirement.get("operator") or "", requirement.get("values") or []
    if operator in ("In", "NotIn"):
        if not values:
            raise StageError("for 'in', 'notin' operators, values set can't be empty")
        known = frozenset(values)
        return lambda obj, now: _is_among(results(obj, now), known) == (operator == "In")
    if operator not in ("Exists", "DoesNotExist"):
        raise StageError(f'operator "{operator}" is not supported')
    if values:
        raise StageError("values set must be empty for exists and does not exist")
    return lambda obj, now: bool(results(obj, now)) == (operator == "Exists")


def _is_among(results: list[Any] | None, values: frozenset[str]) -> bool:
    """Report whether one of the results is among values. An expression that cannot be evaluated
    has no results."""
    return any(_text(result) in values for result in results or ())


def _text(result: Any) -> str | None:
    if isinstance(result, bool):
        return _TEXTS[result]
    return str(result) if isinstance(result, str | int) else None
