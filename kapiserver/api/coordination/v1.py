"""coordination.k8s.io/v1: leases."""

from __future__ import annotations

from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.scalar_types import MicroTime
from kapiserver.api.types import Kind, Type, field, int32


class Lease(Kind):
    """A claim to a role, held for a time."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: LeaseSpec = field(2, doc="The desired state.")


class LeaseSpec(Type):
    """Who holds a lease, since when and for how long."""

    holderIdentity: str | None = field(1, doc="Who holds the lease.")
    leaseDurationSeconds: int32 | None = field(
        2, doc="How long others wait after the last renewal."
    )
    acquireTime: MicroTime | None = field(3, doc="Since when the lease is held.")
    renewTime: MicroTime | None = field(4, doc="When the holder last renewed it.")
    leaseTransitions: int32 | None = field(5, doc="How often the holder changed.")
    strategy: str | None = field(6, doc="How the holder is chosen.")
    preferredHolder: str | None = field(7, doc="Who shall hold it next.")
