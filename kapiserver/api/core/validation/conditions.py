"""Validation of meta/v1 conditions, which the statuses of many groups contain.

Mirrors ValidateConditions of k8s.io/apimachinery/pkg/apis/meta/v1/validation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from kapiserver.api.errors import (
    FieldError,
    Path,
    duplicate,
    invalid,
    not_supported,
    required,
    too_long,
)
from kapiserver.api.label_selectors import validate_label_key
from kapiserver.api.types import Tree

_STATUSES = ("False", "True", "Unknown")
_REASON_MAX = 1024
_MESSAGE_MAX = 32 * 1024
_REASON_REGEX = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
_REASON = re.compile(r"[A-Za-z](?:[A-Za-z0-9_,:]*+(?<![,:]))?")
_BAD_REASON = (
    "a condition reason must start with alphabetic character, optionally followed by a string of "
    "alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. "
    "'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex "
    f"used for validation is '{_REASON_REGEX}')"
)


def validate_conditions(conditions: Sequence[Tree] | None, path: Path) -> Iterator[FieldError]:
    """Validate the conditions of a status. Each type may occur once."""
    seen: set[str] = set()
    for index, condition in enumerate(conditions or ()):
        type_ = condition.get("type") or ""
        if type_ in seen:
            yield duplicate(path[index] / "type", type_)
        seen.add(type_)
        yield from _validate_condition(condition, path[index])


def _validate_condition(condition: Tree, path: Path) -> Iterator[FieldError]:
    status, reason = condition.get("status") or "", condition.get("reason") or ""
    yield from validate_label_key(condition.get("type") or "", path / "type")
    if status not in _STATUSES:
        yield not_supported(path / "status", status, _STATUSES)
    generation = condition.get("observedGeneration") or 0
    if generation < 0:
        detail = "must be greater than or equal to zero"
        yield invalid(path / "observedGeneration", generation, detail)
    if not condition.get("lastTransitionTime"):
        yield required(path / "lastTransitionTime", "must be set")
    if not reason:
        yield required(path / "reason", "must be set")
    else:
        if not _REASON.fullmatch(reason):
            yield invalid(path / "reason", reason, _BAD_REASON)
        if len(reason) > _REASON_MAX:
            yield too_long(path / "reason", _REASON_MAX)
    if len(condition.get("message") or "") > _MESSAGE_MAX:
        yield too_long(path / "message", _MESSAGE_MAX)
