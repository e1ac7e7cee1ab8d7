"""LabelSelector of meta/v1: the selector as an object, `matchLabels` and `matchExpressions`.

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
    """What the selector selects; None for no selector, which selects nothing.

    Raises BadObject.
    """
    if selector is None:
        return None
    found: list[Requirement] = [
        requirement(key, "=", (value,))
        for key, value in (selector.get("matchLabels") or {}).items()
    ]
    for one in selector.get("matchExpressions") or ():
        operator = _OPERATORS.get(one.get("operator") or "")
        if operator is None:
            raise BadObject(f'"{one.get("operator") or ""}" is not a valid label selector operator')
        values = tuple(sorted(set(one.get("values") or ())))
        found.append(requirement(one.get("key") or "", operator, values))
    return Selection(tuple(sorted(found, key=lambda one: one.key)))


def selector_text(selector: Tree | None) -> str:
    """The selector in the form of a label selector's text. Raises BadObject."""
    selection = selection_of(selector)
    return selection.label_text if selection else ""


def selects_everything(selector: Tree) -> bool:
    """Whether the selector has no condition."""
    return not selector.get("matchLabels") and not selector.get("matchExpressions")


def validate_label_selector(
    selector: Tree | None, path: Path, *, before: Tree | None = None
) -> list[FieldError]:
    """The rules for a selector.

    Old servers looked at no values of expressions: if `before`, the selector that is to be
    replaced, breaks the rules, then the values of the new one may be anything too.
    """
    if selector is None:
        return []
    lax = before is not None and bool(validate_label_selector(before, path))
    found = validate_labels(selector.get("matchLabels"), path / "matchLabels")
    for index, one in enumerate(selector.get("matchExpressions") or ()):
        at = (path / "matchExpressions")[index]
        found.extend(_validate_expression(one, at))
        if not lax:
            found.extend(_validate_values(one.get("values") or (), at / "values"))
    return found


def _validate_expression(one: Tree, path: Path) -> list[FieldError]:
    operator, values = one.get("operator") or "", one.get("values") or []
    found: list[FieldError] = []
    if operator in ("In", "NotIn"):
        if not values:
            found.append(
                required(path / "values", "must be specified when `operator` is 'In' or 'NotIn'")
            )
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            found.append(
                forbidden(
                    path / "values",
                    "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                )
            )
    else:
        found.append(invalid(path / "operator", operator, "not a valid selector operator"))
    found.extend(validate_label_key(one.get("key") or "", path / "key"))
    return found


def _validate_values(values: Sequence[str], path: Path) -> list[FieldError]:
    return [
        invalid(path[index], value, message)
        for index, value in enumerate(values)
        for message in names.label_value(value)
    ]


def validate_label_key(key: str, path: Path) -> list[FieldError]:
    """The rules for one label key."""
    return [invalid(path, key, message) for message in names.qualified_name(key)]


_REMEMBERED_LENGTH = 256


@functools.lru_cache(maxsize=2048)  # objects repeat each other's labels
def _fits(key: str, value: str) -> bool:
    return not names.qualified_name(key) and not names.label_value(value)


def validate_labels(labels: dict[str, str] | None, path: Path) -> list[FieldError]:
    """The rules for a map of labels."""
    found: list[FieldError] = []
    for key, value in (labels or {}).items():
        if len(key) + len(value) <= _REMEMBERED_LENGTH and _fits(key, value):
            continue
        found.extend(validate_label_key(key, path))
        found.extend(invalid(path, value, message) for message in names.label_value(value))
    return found
