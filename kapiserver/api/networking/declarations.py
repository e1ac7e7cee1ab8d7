"""What the types of the networking group declare of their fields."""

from __future__ import annotations

from kapiserver.api.declarations import Declared, immutable, needed

_NEEDED = Declared(first=(needed,))


def _rules(side: str) -> Declared:
    block = Declared(pointer=True, fields={"cidr": _NEEDED})
    peers = Declared(items=Declared(fields={"ipBlock": block}))
    return Declared(items=Declared(fields={side: peers}))


INGRESS_CLASS = Declared(
    fields={
        "spec": Declared(
            fields={"parameters": Declared(pointer=True, fields={"kind": _NEEDED, "name": _NEEDED})}
        )
    }
)
IP_ADDRESS = Declared(
    fields={
        "spec": Declared(
            fields={
                "parentRef": Declared(
                    first=(immutable, needed), fields={"resource": _NEEDED, "name": _NEEDED}
                )
            }
        )
    }
)
NETWORK_POLICY = Declared(
    fields={"spec": Declared(fields={"ingress": _rules("from"), "egress": _rules("to")})}
)
