"""coordination.k8s.io/v1beta1: the leases of v1, and lease candidates."""

from __future__ import annotations

from kapiserver.api.coordination import v1
from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.scalar_types import MicroTime
from kapiserver.api.types import Kind, Type, field, inherit_types

inherit_types(__name__, v1)


class LeaseCandidate(Kind):
    """A candidate for a lease that is assigned by coordinated leader election."""

    metadata: ObjectMeta = field(
        1, doc="Standard object's metadata, such as its name, labels and owners."
    )
    spec: LeaseCandidateSpec = field(
        2, required=True, doc="The lease, and the versions by which the leader is chosen."
    )


class LeaseCandidateSpec(Type):
    """The lease that a candidate wants, and the versions it runs."""

    leaseName: str = field(
        1,
        always=True,
        required=True,
        doc=(
            "Name of the Lease, in the same namespace, that the candidate wants. It cannot be "
            "changed."
        ),
    )
    pingTime: MicroTime | None = field(
        2,
        doc=(
            "Time at which the server last asked whether the candidate is alive. The candidate "
            "answers by setting renewTime."
        ),
    )
    renewTime: MicroTime | None = field(
        3,
        doc=(
            "Time at which the candidate last renewed. A candidate that does not renew after a "
            "ping is not considered."
        ),
    )
    binaryVersion: str = field(
        4,
        always=True,
        required=True,
        doc=(
            "Version of the candidate's program as a semantic version without the leading v, such "
            "as 1.37.0."
        ),
    )
    emulationVersion: str = field(
        5,
        doc=(
            "Version whose behavior the candidate emulates, not above binaryVersion. Required for "
            "the strategy OldestEmulationVersion."
        ),
    )
    strategy: str = field(
        6,
        required=True,
        doc=(
            "The candidate's strategy for electing the holder: OldestEmulationVersion, or a name "
            "with a domain."
        ),
    )
