"""Declarative validation rules of the flowcontrol group."""

from __future__ import annotations

from kapiserver.api.declarative_validation import (
    FieldRules,
    discriminated,
    forbidden_value,
    required_value,
)

_TYPE = FieldRules(short_circuit=(required_value,))
_RESPONSE = FieldRules(
    rules=(discriminated("type", "queuing", {"Queue": required_value, "Reject": forbidden_value}),),
    fields={"type": _TYPE},
)
PRIORITY_LEVEL = FieldRules(
    fields={
        "spec": FieldRules(
            rules=(
                discriminated(
                    "type", "limited", {"Limited": required_value, "Exempt": forbidden_value}
                ),
                discriminated("type", "exempt", {"Limited": forbidden_value}),
            ),
            fields={
                "type": _TYPE,
                "limited": FieldRules(pointer=True, fields={"limitResponse": _RESPONSE}),
            },
        )
    }
)
