"""Declarative validation rules of the networking group."""

from __future__ import annotations

from kapiserver.api.declarative_validation import FieldRules, immutable, required_value

_NEEDED = FieldRules(short_circuit=(required_value,))


def _rules(side: str) -> FieldRules:
    block = FieldRules(pointer=True, fields={"cidr": _NEEDED})
    peers = FieldRules(items=FieldRules(fields={"ipBlock": block}))
    return FieldRules(items=FieldRules(fields={side: peers}))


INGRESS_CLASS = FieldRules(
    fields={
        "spec": FieldRules(
            fields={
                "parameters": FieldRules(pointer=True, fields={"kind": _NEEDED, "name": _NEEDED})
            }
        )
    }
)
IP_ADDRESS = FieldRules(
    fields={
        "spec": FieldRules(
            fields={
                "parentRef": FieldRules(
                    short_circuit=(immutable, required_value),
                    fields={"resource": _NEEDED, "name": _NEEDED},
                )
            }
        )
    }
)
NETWORK_POLICY = FieldRules(
    fields={"spec": FieldRules(fields={"ingress": _rules("from"), "egress": _rules("to")})}
)
