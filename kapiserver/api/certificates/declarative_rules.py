"""Declarative validation rules of the certificates group."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kapiserver.api.certificates.validation.signing_requests import DECISIONS
from kapiserver.api.declarative_validation import ABSENT, FieldRules
from kapiserver.api.errors import FieldError, Path, invalid


def _at_most_one_decision(new: Any, old: Any, path: Path) -> Iterator[FieldError]:
    types = _decision_types(new)
    if len(types) > 1 and (old is ABSENT or types != _decision_types(old)):
        members = ", ".join(f"`{_member_text(type_)}`" for type_ in DECISIONS)
        value = f"{{{', '.join(map(_member_text, types))}}}"
        yield invalid(path, value, f"must specify at most one of: {members}")


def _decision_types(conditions: Any) -> list[str]:
    types = {condition.get("type") for condition in conditions or ()}
    return [type_ for type_ in DECISIONS if type_ in types]


def _member_text(type_: str) -> str:
    return f'conditions[{{"type": "{type_}"}}]'


SIGNING_REQUEST = FieldRules(
    fields={"status": FieldRules(fields={"conditions": FieldRules(rules=(_at_most_one_decision,))})}
)
