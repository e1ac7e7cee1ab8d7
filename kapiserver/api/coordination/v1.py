"""coordination.k8s.io/v1: leases."""

from __future__ import annotations

from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.scalar_types import MicroTime
from kapiserver.api.types import Kind, Type, field, int32


class Lease(Kind):
    """A lock that its holder must renew; used for leader election and node heartbeats."""

    metadata: ObjectMeta = field(
        1, doc="Standard object's metadata, such as its name, labels and owners."
    )
    spec: LeaseSpec = field(2, doc="The holder of the lease and its times.")


class LeaseSpec(Type):
    """The holder of a lease and the times that decide whether it has expired."""

    holderIdentity: str | None = field(
        1,
        doc=(
            "Identity of the current holder, such as its host name and a UUID. If it is absent or "
            "empty, nobody holds the lease."
        ),
    )
    leaseDurationSeconds: int32 | None = field(
        2,
        doc="Seconds after renewTime at which others may take over the lease; greater than zero.",
    )
    acquireTime: MicroTime | None = field(
        3, doc="Time at which the current holder acquired the lease."
    )
    renewTime: MicroTime | None = field(
        4,
        doc=(
            "Time at which the current holder last renewed the lease. It expires "
            "leaseDurationSeconds later."
        ),
    )
    leaseTransitions: int32 | None = field(
        5, doc="Number of times that the lease changed its holder; zero or more."
    )
    strategy: str | None = field(
        6,
        doc=(
            "Strategy for electing the holder among LeaseCandidates, such as "
            "OldestEmulationVersion. If it is absent, candidates compete for the lease directly."
        ),
    )
    preferredHolder: str | None = field(
        7,
        doc=(
            "Identity of a better candidate: the holder should release the lease for it. Needs "
            "strategy."
        ),
    )
