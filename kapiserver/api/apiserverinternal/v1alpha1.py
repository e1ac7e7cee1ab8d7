"""internal.apiserver.k8s.io/v1alpha1: StorageVersions, how API servers store resources."""

from __future__ import annotations

from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.scalar_types import Time
from kapiserver.api.types import Kind, Type, field, int64


class ServerStorageVersion(Type):
    """The versions in which one API server reads, writes and serves a resource."""

    apiServerID: str = field(
        1, required=True, doc="Identifier of the API server that reports, a DNS subdomain."
    )
    encodingVersion: str = field(
        2,
        required=True,
        doc="Version in which the server writes objects to the store, such as apps/v1.",
    )
    decodableVersions: list[str] = field(
        3,
        required=True,
        set=True,
        doc=(
            "Versions that the server can read from the store. Must include encodingVersion and "
            "all of servedVersions."
        ),
    )
    servedVersions: list[str] = field(
        4,
        set=True,
        doc="Versions in which the server serves the resource. Each must be in decodableVersions.",
    )


class StorageVersion(Kind):
    """The versions in which the API servers of a cluster store one resource."""

    metadata: ObjectMeta = field(
        1, required=True, doc="Standard object's metadata. The name is <group>.<resource>."
    )
    spec: StorageVersionSpec = field(2, doc="Empty: a StorageVersion has no desired state.")
    status: StorageVersionStatus = field(
        3, doc="What each API server reports, and what they have in common."
    )


class StorageVersionCondition(Type):
    """One aspect of the current state of a StorageVersion."""

    type: str = field(
        1,
        always=True,
        required=True,
        doc="Type of the condition. The only value in use is AllEncodingVersionsEqual.",
    )
    status: str = field(
        2,
        always=True,
        required=True,
        doc="Whether the API servers meet the condition: True, False or Unknown.",
    )
    observedGeneration: int64 = field(
        3, doc="metadata.generation that the condition was computed for."
    )
    lastTransitionTime: Time = field(4, doc="When the condition went from one status to another.")
    reason: str = field(
        5,
        always=True,
        required=True,
        doc="A machine-readable CamelCase reason for the last transition; must not be empty.",
    )
    message: str = field(6, required=True, doc="Details of the last transition for people.")


class StorageVersionSpec(Type):
    """Has no fields: a StorageVersion has no desired state."""


class StorageVersionStatus(Type):
    """The versions that the API servers report, and what they have in common."""

    storageVersions: list[ServerStorageVersion] = field(
        1, keys=("apiServerID",), doc="What each API server reports, one entry per server."
    )
    commonEncodingVersion: str | None = field(
        2,
        doc=(
            "Version in which all reporting servers write. Unset if they differ or none has "
            "reported."
        ),
    )
    conditions: list[StorageVersionCondition] = field(
        3, keys=("type",), doc="Aspects of the servers' agreement, at most one per type."
    )
