"""coordination.k8s.io/v1beta1: the leases of v1, and candidates for them."""

from __future__ import annotations

from kapiserver.api.coordination import v1
from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.scalar_types import MicroTime
from kapiserver.api.types import Kind, Type, field, inherit_types

inherit_types(__name__, v1)


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
