"""LabelSelector of meta/v1: `matchLabels` and `matchExpressions`.

Mirrors LabelSelectorAsSelector and its validation in k8s.io/apimachinery.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from kapiserver.api import names
from kapiserver.api.errors import BadObject, FieldError, Path, forbidden, invalid, required
from kapiserver.api.selectors import Operator, Requirement, Selection, requirement
from kapiserver.api.types import Tree

_OPERATORS: dict[str, Operator] = {
    "In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!",
}  # fmt: skip


def selection_of(selector: Tree | None) -> Selection | None:
    """Return the selection of a selector; None for no selector, which selects nothing.

    Raises BadObject.
    """
    if selector is None:
        return None
    requirements: list[Requirement] = [
        requirement(key, "=", (value,))
        for key, value in (selector.get("matchLabels") or {}).items()
    ]
    for expression in selector.get("matchExpressions") or ():
        operator = _OPERATORS.get(expression.get("operator") or "")
        if operator is None:
            raise BadObject(
                f'"{expression.get("operator") or ""}" is not a valid label selector operator'
            )
        values = tuple(sorted(set(expression.get("values") or ())))
        requirements.append(requirement(expression.get("key") or "", operator, values))
    return Selection(tuple(sorted(requirements, key=lambda item: item.key)))


def selector_text(selector: Tree | None) -> str:
    """Return the selector in the text form of a label selector. Raises BadObject."""
    selection = selection_of(selector)
    return selection.label_text if selection else ""


def selects_everything(selector: Tree) -> bool:
    """Report whether the selector has no requirement."""
    return not selector.get("matchLabels") and not selector.get("matchExpressions")


def validate_label_selector(
    selector: Tree | None, path: Path, *, before: Tree | None = None
) -> list[FieldError]:
    """Validate a selector.

    Old servers did not validate the values of expressions: if `before`, the stored selector, is
    invalid, the values of the new one are not validated either.
    """
    if selector is None:
        return []
    skip_values = before is not None and bool(validate_label_selector(before, path))
    errors = validate_labels(selector.get("matchLabels"), path / "matchLabels")
    for index, expression in enumerate(selector.get("matchExpressions") or ()):
        expression_path = (path / "matchExpressions")[index]
        errors.extend(_validate_expression(expression, expression_path))
        if not skip_values:
            errors.extend(
                _validate_values(expression.get("values") or (), expression_path / "values")
            )
    return errors


def _validate_expression(expression: Tree, path: Path) -> list[FieldError]:
    operator, values = expression.get("operator") or "", expression.get("values") or []
    errors: list[FieldError] = []
    if operator in ("In", "NotIn"):
        if not values:
            errors.append(
                required(path / "values", "must be specified when `operator` is 'In' or 'NotIn'")
            )
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            errors.append(
                forbidden(
                    path / "values",
                    "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                )
            )
    else:
        errors.append(invalid(path / "operator", operator, "not a valid selector operator"))
    errors.extend(validate_label_key(expression.get("key") or "", path / "key"))
    return errors


def _validate_values(values: Sequence[str], path: Path) -> list[FieldError]:
    return [
        invalid(path[index], value, message)
        for index, value in enumerate(values)
        for message in names.label_value(value)
    ]


def validate_label_key(key: str, path: Path) -> list[FieldError]:
    """Validate one label key."""
    return [invalid(path, key, message) for message in names.qualified_name(key)]


_CACHED_LENGTH = 256


@functools.lru_cache(maxsize=2048)  # objects repeat each other's labels
def _is_valid(key: str, value: str) -> bool:
    return not names.qualified_name(key) and not names.label_value(value)


def validate_labels(labels: dict[str, str] | None, path: Path) -> list[FieldError]:
    """Validate a map of labels."""
    errors: list[FieldError] = []
    for key, value in (labels or {}).items():
        if len(key) + len(value) <= _CACHED_LENGTH and _is_valid(key, value):
            continue
        errors.extend(validate_label_key(key, path))
        errors.extend(invalid(path, value, message) for message in names.label_value(value))
    return errors


def go_label_selector(selector: Tree | None) -> str:
    """Return a LabelSelector as Go prints it, for messages."""
    if selector is None:
        return "nil"
    pairs = sorted((selector.get("matchLabels") or {}).items())
    labels = "".join(f"{name}: {value}," for name, value in pairs)
    expressions = "".join(map(_go_requirement, selector.get("matchExpressions") or ()))
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )


def _go_requirement(requirement: Tree) -> str:
    key, operator = requirement.get("key") or "", requirement.get("operator") or ""
    values = " ".join(requirement.get("values") or ())
    return f"LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},"
