"""internal.apiserver.k8s.io/v1alpha1: the versions that servers read and write."""

from __future__ import annotations

from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.scalar_types import Time
from kapiserver.api.types import Kind, Type, field, int64


class ServerStorageVersion(Type):
    """What one server reads and writes of a resource."""

    apiServerID: str = field(1, required=True, doc="The server, by its id.")
    encodingVersion: str = field(2, required=True, doc="The version in which it writes.")
    decodableVersions: list[str] = field(
        3, required=True, set=True, doc="Versions that it can read."
    )
    servedVersions: list[str] = field(4, set=True, doc="Versions that it serves.")


class StorageVersion(Kind):
    """The versions in which the servers of a cluster store a resource."""

    metadata: ObjectMeta = field(1, required=True, doc="Standard object metadata.")
    spec: StorageVersionSpec = field(2, doc="The desired state.")
    status: StorageVersionStatus = field(3, doc="The observed state.")


class StorageVersionCondition(Type):
    """One finding about the servers' versions."""

    type: str = field(1, always=True, required=True, doc="What the finding is about.")
    status: str = field(2, always=True, required=True, doc="True, False or Unknown.")
    observedGeneration: int64 = field(3, doc="The generation this was found for.")
    lastTransitionTime: Time = field(4, doc="When the status last changed.")
    reason: str = field(5, always=True, required=True, doc="Why, in one word for programs.")
    message: str = field(6, required=True, doc="Why, for people.")


class StorageVersionSpec(Type):
    """Nothing, as yet."""


class StorageVersionStatus(Type):
    """What each server said, and what they agree on."""

    storageVersions: list[ServerStorageVersion] = field(
        1, keys=("apiServerID",), doc="What each server says."
    )
    commonEncodingVersion: str | None = field(
        2, doc="The version that all write, where they agree."
    )
    conditions: list[StorageVersionCondition] = field(
        3, keys=("type",), doc="What was found out about it."
    )
