"""coordination.k8s.io/v1beta1: leases, and candidates for them."""

from __future__ import annotations

from kapiserver.api.leaves import MicroTime
from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.types import Kind, Type, field, int32


class Lease(Kind):
    """A claim to a role, held for a time."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: LeaseSpec = field(2, doc="The desired state.")


class LeaseCandidate(Kind):
    """One who would take a lease."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: LeaseCandidateSpec = field(2, required=True, doc="The desired state.")


class LeaseCandidateSpec(Type):
    """Which lease, and which version the candidate runs."""

    leaseName: str = field(1, always=True, required=True, doc="The lease it would take.")
    pingTime: MicroTime | None = field(2, doc="When it last said that it is there.")
    renewTime: MicroTime | None = field(3, doc="When it last renewed its wish.")
    binaryVersion: str = field(4, always=True, required=True, doc="The version of the program.")
    emulationVersion: str = field(5, doc="The version it behaves like.")
    strategy: str = field(6, required=True, doc="How the holder is chosen.")


class LeaseSpec(Type):
    """Who holds a lease, since when and for how long."""

    holderIdentity: str | None = field(1, doc="Who holds the lease.")
    leaseDurationSeconds: int32 | None = field(
        2, doc="How long others wait after the last renewal."
    )
    acquireTime: MicroTime | None = field(3, doc="Since when the lease is held.")
    renewTime: MicroTime | None = field(4, doc="When the holder last renewed it.")
    leaseTransitions: int32 | None = field(5, doc="How often the holder changed.")
    strategy: str | None = field(6)
    preferredHolder: str | None = field(7)
