"""Declarative validation rules of the admissionregistration group."""

from __future__ import annotations

from kapiserver.api.declarative_validation import FieldRules, required_value

_REQUIRED = FieldRules(short_circuit=(required_value,))

VALIDATING_BINDING = FieldRules(
    fields={"spec": FieldRules(fields={"policyName": _REQUIRED, "validationActions": _REQUIRED})}
)
