"""Declarative validation rules of the certificates group."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kapiserver.api.certificates.validation.signing_requests import DECISIONS
from kapiserver.api.declarative_validation import ABSENT, FieldRules
from kapiserver.api.errors import FieldError, Path, invalid


def _one_decision(new: Any, old: Any, path: Path) -> Iterator[FieldError]:
    decided = _decided(new)
    if len(decided) > 1 and (old is ABSENT or decided != _decided(old)):
        listed = ", ".join(f"`{_member(type_)}`" for type_ in DECISIONS)
        shown = f"{{{', '.join(map(_member, decided))}}}"
        yield invalid(path, shown, f"must specify at most one of: {listed}")


def _decided(conditions: Any) -> list[str]:
    types = {condition.get("type") for condition in conditions or ()}
    return [type_ for type_ in DECISIONS if type_ in types]


def _member(type_: str) -> str:
    return f'conditions[{{"type": "{type_}"}}]'


SIGNING_REQUEST = FieldRules(
    fields={"status": FieldRules(fields={"conditions": FieldRules(rules=(_one_decision,))})}
)
