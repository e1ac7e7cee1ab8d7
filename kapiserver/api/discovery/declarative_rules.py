"""Declarative validation rules of the discovery group."""

from __future__ import annotations

from kapiserver.api.declarative_validation import (
    FieldRules,
    enum,
    immutable,
    max_items,
    required_value,
)
from kapiserver.api.discovery.validation import ADDRESS_TYPES, ADDRESSES_MAX

ENDPOINT_SLICE = FieldRules(
    fields={
        "addressType": FieldRules(
            short_circuit=(immutable, required_value), rules=(enum(*ADDRESS_TYPES),)
        ),
        "endpoints": FieldRules(
            items=FieldRules(
                fields={
                    "addresses": FieldRules(
                        short_circuit=(max_items(ADDRESSES_MAX), required_value)
                    )
                }
            )
        ),
    }
)
