"""Declarative validation rules of the batch group."""

from __future__ import annotations

from kapiserver.api.declarative_validation import FieldRules, required_value

CRON_JOB = FieldRules(
    fields={"spec": FieldRules(fields={"schedule": FieldRules(short_circuit=(required_value,))})},
)
