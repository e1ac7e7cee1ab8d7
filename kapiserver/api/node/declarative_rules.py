"""Declarative validation rules of the node group."""

from __future__ import annotations

from kapiserver.api import names
from kapiserver.api.declarative_validation import FieldRules, immutable, required_value, text_format

RUNTIME_CLASS = FieldRules(
    fields={
        "handler": FieldRules(
            short_circuit=(immutable, required_value), rules=(text_format(names.dns1123_label),)
        ),
    }
)
