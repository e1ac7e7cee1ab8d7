"""meta/v1: what every group shares: metadata, options, Status, Table, watch events, discovery."""

from __future__ import annotations

from typing import Any

from kapiserver.api.leaves import FieldsV1, RawExtension, StringList, Time
from kapiserver.api.types import Kind, Type, field, int32, int64


class Verbs(StringList):
    """The verbs of a resource."""


class APIGroup(Kind):
    """One group and its versions."""

    name: str = field(1, always=True, required=True, doc="Its name.")
    versions: list[GroupVersionForDiscovery] = field(
        2, always=True, required=True, doc="The versions."
    )
    preferredVersion: GroupVersionForDiscovery = field(3, doc="The version to use.")
    serverAddressByClientCIDRs: list[ServerAddressByClientCIDR] = field(
        4, doc="Where clients reach the server."
    )


class APIGroupList(Kind):
    """All groups."""

    listed = False

    groups: list[APIGroup] = field(1, always=True, required=True, doc="The groups.")


class APIResource(Type):
    """One resource of a version."""

    name: str = field(1, always=True, required=True, doc="Its name.")
    singularName: str = field(6, always=True, required=True, doc="The name of one.")
    namespaced: bool = field(
        2, always=True, required=True, doc="Whether objects lie in namespaces."
    )
    group: str = field(8, doc="The API group.")
    version: str = field(9, doc="The version.")
    kind: str = field(3, always=True, required=True, doc="The kind of the object.")
    verbs: Verbs = field(4, always=True, required=True, doc="What may be done; *: everything.")
    shortNames: list[str] = field(5, doc="Short names.")
    categories: list[str] = field(7, doc="What it is a part of, as all.")
    storageVersionHash: str = field(10, doc="Changes with the version in which it is stored.")


class APIResourceList(Kind):
    """All resources of one version."""

    listed = False

    groupVersion: str = field(1, always=True, required=True, doc="Group and version.")
    resources: list[APIResource] = field(
        2, always=True, required=True, doc="What it needs, and may use."
    )


class APIVersions(Kind):
    """The versions of the core group."""

    listed = False

    versions: list[str] = field(1, always=True, required=True, doc="The versions.")
    serverAddressByClientCIDRs: list[ServerAddressByClientCIDR] = field(
        2, always=True, required=True, doc="Where clients reach the server."
    )


class ApplyOptions(Kind):
    """Options of apply, as clients hold them."""

    listed = False

    dryRun: list[str] = field(1, doc="All: go through every step and persist nothing.")
    force: bool = field(2, always=True, required=True, doc="Take fields over from other managers.")
    fieldManager: str = field(3, always=True, required=True, doc="Who makes the change.")


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

    dryRun: list[str] = field(1, doc="All: go through every step and persist nothing.")
    fieldManager: str = field(3, doc="Who makes the change.")
    fieldValidation: str = field(4, doc="Ignore, Warn or Strict: unknown and duplicate fields.")


class DeleteOptions(Kind):
    """Body or query options of delete."""

    listed = False

    gracePeriodSeconds: int64 | None = field(1, doc="Seconds until the object goes; 0: at once.")
    preconditions: Preconditions | None = field(2, doc="What must be so for it to happen.")
    orphanDependents: bool | None = field(3, doc="Deprecated: use propagationPolicy.")
    propagationPolicy: str | None = field(
        4, doc="Orphan, Background or Foreground: what becomes of dependents."
    )
    dryRun: list[str] = field(5, doc="All: go through every step and persist nothing.")
    ignoreStoreReadErrorWithClusterBreakingPotential: bool | None = field(
        6, doc="Delete what cannot be read any more."
    )


class FieldSelectorRequirement(Type):
    """One requirement on a field."""

    key: str = field(1, always=True, required=True, doc="Its key.")
    operator: str = field(2, always=True, required=True, doc="How key and values relate.")
    values: list[str] = field(3, doc="The values to compare with.")


class GetOptions(Kind):
    """Query options of get."""

    listed = False

    resourceVersion: str = field(1, doc="The version of the object.")


class GroupKind(Type):
    """A kind without its version."""

    group: str = field(1, always=True, required=True, doc="The API group.")
    kind: str = field(2, always=True, required=True, doc="The kind of the object.")


class GroupResource(Type):
    """A resource without its version."""

    group: str = field(1, always=True, required=True, doc="The API group.")
    resource: str = field(2, always=True, required=True, doc="Which resource.")


class GroupVersion(Type):
    """A group and version."""

    group: str = field(1, always=True, required=True, doc="The API group.")
    version: str = field(2, always=True, required=True, doc="The version.")


class GroupVersionForDiscovery(Type):
    """One version of a group."""

    groupVersion: str = field(1, always=True, required=True, doc="Group and version.")
    version: str = field(2, always=True, required=True, doc="The version.")


class GroupVersionKind(Type):
    """What an object says it is."""

    group: str = field(1, always=True, required=True, doc="The API group.")
    version: str = field(2, always=True, required=True, doc="The version.")
    kind: str = field(3, always=True, required=True, doc="The kind of the object.")


class GroupVersionResource(Type):
    """A resource in a version."""

    group: str = field(1, always=True, required=True, doc="The API group.")
    version: str = field(2, always=True, required=True, doc="The version.")
    resource: str = field(3, always=True, required=True, doc="Which resource.")


class LabelSelector(Type):
    """Objects whose labels match all requirements."""

    atomic = True

    matchLabels: dict[str, str] = field(1, doc="Labels and the values they must have.")
    matchExpressions: list[LabelSelectorRequirement] = field(2, doc="Requirements, all of them.")


class LabelSelectorRequirement(Type):
    """One requirement on a label."""

    key: str = field(1, always=True, required=True, doc="Its key.")
    operator: str = field(2, always=True, required=True, doc="How key and values relate.")
    values: list[str] = field(3, doc="The values to compare with.")


class List(Kind):
    """Objects of any kinds."""

    listed = False

    metadata: ListMeta = field(1, doc="Standard list metadata.")
    items: list[RawExtension] = field(
        2, always=True, required=True, doc="The objects, of whatever kind."
    )


class ListMeta(Type):
    """What every list says about itself."""

    selfLink: str = field(1, doc="Not used any more.")
    resourceVersion: str = field(2, doc="The version of the object.")
    continue_: str = field(3, doc="Where a list that came in pages goes on.")
    remainingItemCount: int64 | None = field(4, doc="How many items are left.")
    shardInfo: ShardInfo | None = field(5, doc="Which part of the objects this is.")


class ListOptions(Kind):
    """Query options of list and watch."""

    listed = False

    labelSelector: str = field(1, doc="Which objects, by their labels.")
    fieldSelector: str = field(2, doc="Only objects with these field values.")
    watch: bool = field(3, doc="Tell of changes instead of listing.")
    allowWatchBookmarks: bool = field(9, doc="Send BOOKMARK events now and then.")
    resourceVersion: str = field(4, doc="The version of the object.")
    resourceVersionMatch: str = field(
        10, doc="Exact or NotOlderThan: how resourceVersion is meant."
    )
    timeoutSeconds: int64 | None = field(5, doc="How long it may last.")
    limit: int64 = field(7, doc="At most that many items.")
    continue_: str = field(8, doc="Where a list that came in pages goes on.")
    sendInitialEvents: bool | None = field(11, doc="Begin with the objects that are there.")
    shardSelector: str = field(15, doc="Only one part of the objects.")


class ManagedFieldsEntry(Type):
    """The fields that one manager set."""

    manager: str = field(1, doc="Who set the fields.")
    operation: str = field(2, enum=("Apply", "Update"), doc="Apply or Update.")
    apiVersion: str = field(3, doc="Group and version of the object.")
    time: Time | None = field(4, doc="When it was.")
    fieldsType: str = field(6, doc="FieldsV1.")
    fieldsV1: FieldsV1 | None = field(7, doc="The fields, as a tree of their names.")
    subresource: str = field(8, doc="Which part of the object it was written by.")


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

    apiVersion: str = field(5, always=True, required=True, doc="Group and version of the object.")
    kind: str = field(1, always=True, required=True, doc="The kind of the object.")
    name: str = field(3, always=True, required=True, doc="Its name.")
    uid: str = field(4, always=True, required=True, doc="Its uid.")
    controller: bool | None = field(6, doc="Whether this owner is in charge.")
    blockOwnerDeletion: bool | None = field(7, doc="Whether the owner waits for this object to go.")


class PartialObjectMetadata(Kind):
    """The metadata of an object, and nothing else."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")


class PartialObjectMetadataList(Kind):
    """The metadata of many objects."""

    listed = False

    metadata: ListMeta = field(1, doc="Standard list metadata.")
    items: list[PartialObjectMetadata] = field(
        2, always=True, required=True, doc="The metadata of each object."
    )


class PatchOptions(Kind):
    """Query options of patch."""

    listed = False

    dryRun: list[str] = field(1, doc="All: go through every step and persist nothing.")
    force: bool | None = field(2, doc="Take fields over from other managers.")
    fieldManager: str = field(3, doc="Who makes the change.")
    fieldValidation: str = field(4, doc="Ignore, Warn or Strict: unknown and duplicate fields.")


class Preconditions(Type):
    """What must hold for an object to be deleted."""

    uid: str | None = field(1, doc="Its uid.")
    resourceVersion: str | None = field(2, doc="The version of the object.")


class RootPaths(Type):
    """All paths at the root."""

    paths: list[str] = field(1, always=True, required=True, doc="Paths that the server answers.")


class ServerAddressByClientCIDR(Type):
    """The server's address for clients of a network."""

    clientCIDR: str = field(1, always=True, required=True, doc="The network of the clients.")
    serverAddress: str = field(2, always=True, required=True, doc="The address for those clients.")


class ShardInfo(Type):
    """The part of the objects that a list covers."""

    selector: str = field(1, always=True, required=True, doc="The selector of this part.")


class Status(Kind):
    """The outcome of a call that does not answer with an object."""

    listed = False

    metadata: ListMeta = field(1, doc="Standard list metadata.")
    status: str = field(2, doc="Success or Failure.")
    message: str = field(3, doc="What happened, for people.")
    reason: str = field(4, doc="Why, in one word for programs.")
    details: StatusDetails | None = field(5, doc="More about it, for programs.")
    code: int32 = field(6, doc="The HTTP status code.")


class StatusCause(Type):
    """One of the reasons behind a Status."""

    reason: str = field(1, doc="Why, in one word for programs.")
    message: str = field(2, doc="What happened, for people.")
    field_: str = field(3, doc="The field it is about.")


class StatusDetails(Type):
    """What a Status is about."""

    name: str = field(1, doc="The object, by name.")
    group: str = field(2, doc="The API group.")
    kind: str = field(3, doc="The kind of the object.")
    uid: str = field(6, doc="Its uid.")
    causes: list[StatusCause] = field(4, doc="What it came of, one by one.")
    retryAfterSeconds: int32 = field(5, doc="When to try again.")


class TableOptions(Kind):
    """Query options of an answer as a Table."""

    listed = False

    includeObject: str = field(1, doc="None, Metadata or Object: what stands beside the cells.")


class UpdateOptions(Kind):
    """Query options of update."""

    listed = False

    dryRun: list[str] = field(1, doc="All: go through every step and persist nothing.")
    fieldManager: str = field(2, doc="Who makes the change.")
    fieldValidation: str = field(3, doc="Ignore, Warn or Strict: unknown and duplicate fields.")


class WatchEvent(Type):
    """One change seen by a watch."""

    type: str = field(
        1, always=True, required=True, doc="ADDED, MODIFIED, DELETED, BOOKMARK or ERROR."
    )
    object: RawExtension = field(2, required=True, doc="The object, or what is shown of it.")


class Table(Kind):
    """Objects as rows for people to read."""

    listed = False
    wire = False

    metadata: ListMeta = field(doc="Standard list metadata.")
    columnDefinitions: list[TableColumnDefinition] = field(
        always=True, required=True, doc="The columns."
    )
    rows: list[TableRow] = field(always=True, required=True, doc="The rows.")


class TableColumnDefinition(Type):
    """The head of a column."""

    wire = False

    name: str = field(always=True, required=True, doc="The head of the column.")
    type: str = field(always=True, required=True, doc="The type of the cells.")
    format: str = field(always=True, required=True, doc="The format.")
    description: str = field(always=True, required=True, doc="What it is, for people.")
    priority: int32 = field(always=True, required=True, doc="Above 0: for wide output alone.")


class TableRow(Type):
    """One object as cells."""

    wire = False

    cells: list[Any] = field(always=True, required=True, doc="One value a column.")
    conditions: list[TableRowCondition] = field(doc="What was found out about it.")
    object: RawExtension = field(doc="The object, or what is shown of it.")


class TableRowCondition(Type):
    """A mark on a row."""

    wire = False

    type: str = field(always=True, doc="What the finding is about.", required=True)
    status: str = field(
        always=True, enum=("True", "False", "Unknown"), doc="True, False or Unknown.", required=True
    )
    reason: str = field(doc="Why, in one word for programs.")
    message: str = field(doc="Why, for people.")
