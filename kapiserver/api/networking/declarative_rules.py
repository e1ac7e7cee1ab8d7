"""Declarative validation rules of the networking group."""

from __future__ import annotations

from kapiserver.api.declarative_validation import FieldRules, immutable, required_value

_REQUIRED = FieldRules(short_circuit=(required_value,))


def _peer_rules(peers_field: str) -> FieldRules:
    block = FieldRules(pointer=True, fields={"cidr": _REQUIRED})
    peers = FieldRules(items=FieldRules(fields={"ipBlock": block}))
    return FieldRules(items=FieldRules(fields={peers_field: peers}))


INGRESS_CLASS = FieldRules(
    fields={
        "spec": FieldRules(
            fields={
                "parameters": FieldRules(
                    pointer=True, fields={"kind": _REQUIRED, "name": _REQUIRED}
                )
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
                    fields={"resource": _REQUIRED, "name": _REQUIRED},
                )
            }
        )
    }
)
NETWORK_POLICY = FieldRules(
    fields={
        "spec": FieldRules(fields={"ingress": _peer_rules("from"), "egress": _peer_rules("to")})
    }
)
