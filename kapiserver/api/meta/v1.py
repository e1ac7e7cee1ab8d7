"""meta/v1: what every group shares: metadata, options, Status, Table, watch events, discovery."""

from __future__ import annotations

from typing import Any

from kapiserver.api.leaves import FieldsV1, RawExtension, StringList, Time
from kapiserver.api.types import Kind, Type, field, int32, int64


class Verbs(StringList):
    """The verbs of a resource."""


class APIGroup(Kind):
    """One group and its versions."""

    name: str = field(1, always=True, required=True)
    versions: list[GroupVersionForDiscovery] = field(2, always=True, required=True)
    preferredVersion: GroupVersionForDiscovery = field(3)
    serverAddressByClientCIDRs: list[ServerAddressByClientCIDR] = field(4)


class APIGroupList(Kind):
    """All groups."""

    listed = False

    groups: list[APIGroup] = field(1, always=True, required=True)


class APIResource(Type):
    """One resource of a version."""

    name: str = field(1, always=True, required=True)
    singularName: str = field(6, always=True, required=True)
    namespaced: bool = field(2, always=True, required=True)
    group: str = field(8)
    version: str = field(9)
    kind: str = field(3, always=True, required=True)
    verbs: Verbs = field(4, always=True, required=True)
    shortNames: list[str] = field(5)
    categories: list[str] = field(7)
    storageVersionHash: str = field(10)


class APIResourceList(Kind):
    """All resources of one version."""

    listed = False

    groupVersion: str = field(1, always=True, required=True)
    resources: list[APIResource] = field(2, always=True, required=True)


class APIVersions(Kind):
    """The versions of the core group."""

    listed = False

    versions: list[str] = field(1, always=True, required=True)
    serverAddressByClientCIDRs: list[ServerAddressByClientCIDR] = field(
        2, always=True, required=True
    )


class ApplyOptions(Kind):
    """Options of apply, as clients hold them."""

    listed = False

    dryRun: list[str] = field(1)
    force: bool = field(2, always=True, required=True)
    fieldManager: str = field(3, always=True, required=True)


class Condition(Type):
    """One finding about an object."""

    type: str = field(1, always=True, required=True, doc="What the finding is about.")
    status: str = field(2, always=True, required=True, doc="True, False or Unknown.")
    observedGeneration: int64 = field(3, doc="The generation this was found for.")
    lastTransitionTime: Time = field(4, required=True, doc="When the status last changed.")
    reason: str = field(5, always=True, required=True, doc="Why, in one word for programs.")
    message: str = field(6, always=True, required=True, doc="Why, for people.")


class CreateOptions(Kind):
    """Query options of create."""

    listed = False

    dryRun: list[str] = field(1)
    fieldManager: str = field(3)
    fieldValidation: str = field(4)


class DeleteOptions(Kind):
    """Body or query options of delete."""

    listed = False

    gracePeriodSeconds: int64 | None = field(1)
    preconditions: Preconditions | None = field(2)
    orphanDependents: bool | None = field(3)
    propagationPolicy: str | None = field(4)
    dryRun: list[str] = field(5)
    ignoreStoreReadErrorWithClusterBreakingPotential: bool | None = field(6)


class FieldSelectorRequirement(Type):
    """One requirement on a field."""

    key: str = field(1, always=True, required=True)
    operator: str = field(2, always=True, required=True)
    values: list[str] = field(3)


class GetOptions(Kind):
    """Query options of get."""

    listed = False

    resourceVersion: str = field(1)


class GroupKind(Type):
    """A kind without its version."""

    group: str = field(1, always=True, required=True)
    kind: str = field(2, always=True, required=True)


class GroupResource(Type):
    """A resource without its version."""

    group: str = field(1, always=True, required=True)
    resource: str = field(2, always=True, required=True)


class GroupVersion(Type):
    """A group and version."""

    group: str = field(1, always=True, required=True)
    version: str = field(2, always=True, required=True)


class GroupVersionForDiscovery(Type):
    """One version of a group."""

    groupVersion: str = field(1, always=True, required=True)
    version: str = field(2, always=True, required=True)


class GroupVersionKind(Type):
    """What an object says it is."""

    group: str = field(1, always=True, required=True)
    version: str = field(2, always=True, required=True)
    kind: str = field(3, always=True, required=True)


class GroupVersionResource(Type):
    """A resource in a version."""

    group: str = field(1, always=True, required=True)
    version: str = field(2, always=True, required=True)
    resource: str = field(3, always=True, required=True)


class LabelSelector(Type):
    """Objects whose labels match all requirements."""

    atomic = True

    matchLabels: dict[str, str] = field(1)
    matchExpressions: list[LabelSelectorRequirement] = field(2)


class LabelSelectorRequirement(Type):
    """One requirement on a label."""

    key: str = field(1, always=True, required=True)
    operator: str = field(2, always=True, required=True)
    values: list[str] = field(3)


class List(Kind):
    """Objects of any kinds."""

    listed = False

    metadata: ListMeta = field(1, doc="Standard list metadata.")
    items: list[RawExtension] = field(2, always=True, required=True)


class ListMeta(Type):
    """What every list says about itself."""

    selfLink: str = field(1)
    resourceVersion: str = field(2)
    continue_: str = field(3)
    remainingItemCount: int64 | None = field(4)
    shardInfo: ShardInfo | None = field(5)


class ListOptions(Kind):
    """Query options of list and watch."""

    listed = False

    labelSelector: str = field(1)
    fieldSelector: str = field(2)
    watch: bool = field(3)
    allowWatchBookmarks: bool = field(9)
    resourceVersion: str = field(4)
    resourceVersionMatch: str = field(10)
    timeoutSeconds: int64 | None = field(5)
    limit: int64 = field(7)
    continue_: str = field(8)
    sendInitialEvents: bool | None = field(11)
    shardSelector: str = field(15)


class ManagedFieldsEntry(Type):
    """The fields that one manager set."""

    manager: str = field(1)
    operation: str = field(2, enum=("Apply", "Update"))
    apiVersion: str = field(3)
    time: Time | None = field(4)
    fieldsType: str = field(6)
    fieldsV1: FieldsV1 | None = field(7)
    subresource: str = field(8)


class ObjectMeta(Type):
    """What every stored object says about itself."""

    name: str = field(1, doc="Unique in the namespace, or in the cluster.")
    generateName: str = field(2, doc="Beginning of a name that the server completes.")
    namespace: str = field(3, doc="The scope of the name.")
    selfLink: str = field(4, doc="Not used any more.")
    uid: str = field(5, doc="Unique over time and space; set by the server.")
    resourceVersion: str = field(6, doc="Changes with every write; opaque to clients.")
    generation: int64 = field(7, doc="Counts changes of the desired state.")
    creationTimestamp: Time = field(8, omit_zero=True, doc="When the object was made.")
    deletionTimestamp: Time | None = field(
        9, doc="When the object goes, once its deletion was asked for."
    )
    deletionGracePeriodSeconds: int64 | None = field(10, doc="How long the object may take to go.")
    labels: dict[str, str] = field(11, doc="Names and values to select by.")
    annotations: dict[str, str] = field(12, doc="Names and values for tools, not to select by.")
    ownerReferences: list[OwnerReference] = field(
        13, keys=("uid",), merge="uid", doc="The objects this one goes with."
    )
    finalizers: list[str] = field(
        14, set=True, merge="", doc="What must be done before the object goes."
    )
    managedFields: list[ManagedFieldsEntry] = field(17, doc="Which manager set which fields.")


class OwnerReference(Type):
    """The object that this one goes with."""

    atomic = True

    apiVersion: str = field(5, always=True, required=True)
    kind: str = field(1, always=True, required=True)
    name: str = field(3, always=True, required=True)
    uid: str = field(4, always=True, required=True)
    controller: bool | None = field(6)
    blockOwnerDeletion: bool | None = field(7)


class PartialObjectMetadata(Kind):
    """The metadata of an object, and nothing else."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")


class PartialObjectMetadataList(Kind):
    """The metadata of many objects."""

    listed = False

    metadata: ListMeta = field(1, doc="Standard list metadata.")
    items: list[PartialObjectMetadata] = field(2, always=True, required=True)


class PatchOptions(Kind):
    """Query options of patch."""

    listed = False

    dryRun: list[str] = field(1)
    force: bool | None = field(2)
    fieldManager: str = field(3)
    fieldValidation: str = field(4)


class Preconditions(Type):
    """What must hold for an object to be deleted."""

    uid: str | None = field(1)
    resourceVersion: str | None = field(2)


class RootPaths(Type):
    """All paths at the root."""

    paths: list[str] = field(1, always=True, required=True)


class ServerAddressByClientCIDR(Type):
    """The server's address for clients of a network."""

    clientCIDR: str = field(1, always=True, required=True)
    serverAddress: str = field(2, always=True, required=True)


class ShardInfo(Type):
    """The part of the objects that a list covers."""

    selector: str = field(1, always=True, required=True)


class Status(Kind):
    """The outcome of a call that does not answer with an object."""

    listed = False

    metadata: ListMeta = field(1, doc="Standard list metadata.")
    status: str = field(2)
    message: str = field(3)
    reason: str = field(4)
    details: StatusDetails | None = field(5)
    code: int32 = field(6)


class StatusCause(Type):
    """One of the reasons behind a Status."""

    reason: str = field(1)
    message: str = field(2)
    field_: str = field(3)


class StatusDetails(Type):
    """What a Status is about."""

    name: str = field(1)
    group: str = field(2)
    kind: str = field(3)
    uid: str = field(6)
    causes: list[StatusCause] = field(4)
    retryAfterSeconds: int32 = field(5)


class TableOptions(Kind):
    """Query options of an answer as a Table."""

    listed = False

    includeObject: str = field(1)


class UpdateOptions(Kind):
    """Query options of update."""

    listed = False

    dryRun: list[str] = field(1)
    fieldManager: str = field(2)
    fieldValidation: str = field(3)


class WatchEvent(Type):
    """One change seen by a watch."""

    type: str = field(1, always=True, required=True)
    object: RawExtension = field(2, required=True)


class Table(Kind):
    """Objects as rows for people to read."""

    listed = False
    wire = False

    metadata: ListMeta = field(doc="Standard list metadata.")
    columnDefinitions: list[TableColumnDefinition] = field(always=True, required=True)
    rows: list[TableRow] = field(always=True, required=True)


class TableColumnDefinition(Type):
    """The head of a column."""

    wire = False

    name: str = field(always=True, required=True)
    type: str = field(always=True, required=True)
    format: str = field(always=True, required=True)
    description: str = field(always=True, required=True)
    priority: int32 = field(always=True, required=True)


class TableRow(Type):
    """One object as cells."""

    wire = False

    cells: list[Any] = field(always=True, required=True)
    conditions: list[TableRowCondition] = field()
    object: RawExtension = field()


class TableRowCondition(Type):
    """A mark on a row."""

    wire = False

    type: str = field(always=True, doc="What the finding is about.", required=True)
    status: str = field(
        always=True, enum=("True", "False", "Unknown"), doc="True, False or Unknown.", required=True
    )
    reason: str = field(doc="Why, in one word for programs.")
    message: str = field(doc="Why, for people.")
