"""Declarative validation rules of the rbac group."""

from __future__ import annotations

from kapiserver.api.declarative_validation import FieldRules, required_value

_REQUIRED = FieldRules(short_circuit=(required_value,))

ROLE = FieldRules(fields={"rules": FieldRules(items=FieldRules(fields={"verbs": _REQUIRED}))})
BINDING = FieldRules(
    fields={
        "subjects": FieldRules(items=FieldRules(fields={"name": _REQUIRED})),
        "roleRef": FieldRules(fields={"name": _REQUIRED}),
    }
)
