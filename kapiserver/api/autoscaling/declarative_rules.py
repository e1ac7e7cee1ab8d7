"""Declarative validation rules of the autoscaling group."""

from __future__ import annotations

from kapiserver.api.declarative_validation import FieldRules, minimum, required_value

HORIZONTAL_POD_AUTOSCALER = FieldRules(
    fields={
        "spec": FieldRules(
            fields={
                "minReplicas": FieldRules(pointer=True, rules=(minimum(0),)),
                "maxReplicas": FieldRules(short_circuit=(required_value,), rules=(minimum(1),)),
            }
        )
    }
)
