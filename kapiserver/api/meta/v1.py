"""meta/v1: types that all groups share: metadata, options, Status, Table, events, discovery."""

from __future__ import annotations

from typing import Any

from kapiserver.api.scalar_types import FieldsV1, RawExtension, StringList, Time
from kapiserver.api.types import Kind, Type, field, int32, int64


class Verbs(StringList):
    """The verbs that a resource supports, such as get, list, watch, create, update, patch and
    delete."""


class APIGroup(Kind):
    """Discovery information about one API group: its name and the versions that the server
    serves."""

    name: str = field(
        1, always=True, required=True, doc="Name of the group, such as apps or networking.k8s.io."
    )
    versions: list[GroupVersionForDiscovery] = field(
        2,
        always=True,
        required=True,
        doc="Versions of the group that the server serves, best first.",
    )
    preferredVersion: GroupVersionForDiscovery = field(
        3, doc="The version that clients should use if they have no reason to choose another."
    )
    serverAddressByClientCIDRs: list[ServerAddressByClientCIDR] = field(
        4,
        doc=(
            "Server addresses for clients in different networks. Clients without a match use the "
            "address by which they reached the server."
        ),
    )


class APIGroupList(Kind):
    """The API groups that the server serves, in the answer to `GET /apis`."""

    listed = False

    groups: list[APIGroup] = field(
        1,
        always=True,
        required=True,
        doc="The served API groups; the core group is not among them.",
    )


class APIResource(Type):
    """Discovery information about one resource or subresource of a group version."""

    name: str = field(
        1,
        always=True,
        required=True,
        doc=(
            "Plural name of the resource as it stands in URLs, such as pods; a subresource "
            "follows a slash, as in pods/status."
        ),
    )
    singularName: str = field(
        6,
        always=True,
        required=True,
        doc=(
            "Singular name of the resource, such as pod, which kubectl accepts and prints. Empty "
            "for a subresource."
        ),
    )
    namespaced: bool = field(
        2,
        always=True,
        required=True,
        doc="True if objects of the resource live in namespaces, false if they are cluster-scoped.",
    )
    group: str = field(
        8,
        doc=(
            "API group of kind. Empty means the group of the list; set if it differs, as for the "
            "scale subresource."
        ),
    )
    version: str = field(
        9,
        doc=(
            "Version of kind. Empty means the version of the list; set if it differs, as for the "
            "scale subresource."
        ),
    )
    kind: str = field(
        3,
        always=True,
        required=True,
        doc="Kind of the objects that the resource reads and writes, in CamelCase, such as Pod.",
    )
    verbs: Verbs = field(
        4,
        always=True,
        required=True,
        doc=(
            "Verbs that the resource supports: get, list, watch, create, update, patch, delete, "
            "deletecollection or proxy."
        ),
    )
    shortNames: list[str] = field(
        5, doc="Abbreviations that kubectl accepts for the resource, such as po for pods."
    )
    categories: list[str] = field(
        7,
        doc=(
            "Groups of resources that contain this one and that kubectl accepts as a name, such "
            "as all."
        ),
    )
    storageVersionHash: str = field(
        10,
        doc=(
            "Opaque hash of the version that objects are stored in. It changes if that version "
            "changes; compare it for equality only."
        ),
    )


class APIResourceList(Kind):
    """The resources of one group version, in the answer to `GET /apis/<group>/<version>`."""

    listed = False

    groupVersion: str = field(
        1,
        always=True,
        required=True,
        doc="Group and version of the listed resources, such as apps/v1, or v1 for the core group.",
    )
    resources: list[APIResource] = field(
        2,
        always=True,
        required=True,
        doc="The resources and subresources of the group version that the server serves.",
    )


class APIVersions(Kind):
    """The versions of the core group, in the answer to `GET /api`."""

    listed = False

    versions: list[str] = field(
        1,
        always=True,
        required=True,
        doc="Versions of the core group that the server serves; always v1.",
    )
    serverAddressByClientCIDRs: list[ServerAddressByClientCIDR] = field(
        2,
        always=True,
        required=True,
        doc=(
            "Addresses at which clients in each network reach the server. Clients use the entry "
            "with the longest matching prefix."
        ),
    )


class ApplyOptions(Kind):
    """Options of server-side apply, as client libraries model them. On the wire they are
    PatchOptions."""

    listed = False

    dryRun: list[str] = field(
        1,
        doc=(
            "All runs every stage of the request but persists nothing. By default changes are "
            "persisted."
        ),
    )
    force: bool = field(
        2,
        always=True,
        required=True,
        doc="Take over fields that other managers own, instead of failing with a conflict.",
    )
    fieldManager: str = field(
        3,
        always=True,
        required=True,
        doc=(
            "Name of the manager that applies the configuration and owns the applied fields. "
            "Required."
        ),
    )


class Condition(Type):
    """One aspect of the current state of an object, as a controller observed it."""

    type: str = field(
        1,
        always=True,
        required=True,
        doc=(
            "Type of the condition in CamelCase, such as Available, optionally with a domain "
            "prefix. A list has at most one condition of each type."
        ),
    )
    status: str = field(
        2,
        always=True,
        required=True,
        doc="Whether the condition holds: True, False, or Unknown if the controller cannot tell.",
    )
    observedGeneration: int64 = field(
        3,
        doc=(
            "metadata.generation of the object that the condition was computed for. The condition "
            "is out of date if the object's generation is higher."
        ),
    )
    lastTransitionTime: Time = field(
        4,
        required=True,
        doc="When the status last changed. If that is unknown, when the API field changed.",
    )
    reason: str = field(
        5,
        always=True,
        required=True,
        doc=(
            "A machine-readable CamelCase reason for the condition's last transition. Must not be "
            "empty."
        ),
    )
    message: str = field(
        6,
        always=True,
        required=True,
        doc="Details of the last transition for people; may be empty. At most 32768 characters.",
    )


class CreateOptions(Kind):
    """Query parameters of a create request."""

    listed = False

    dryRun: list[str] = field(
        1,
        doc=(
            "All runs every stage of the create but persists nothing. By default the object is "
            "persisted."
        ),
    )
    fieldManager: str = field(
        3,
        doc=(
            "Name of the manager that owns the fields of the new object: at most 128 printable "
            "characters. Defaults to the part of the User-Agent before the first slash."
        ),
    )
    fieldValidation: str = field(
        4,
        doc=(
            "What to do with unknown and duplicate fields of the new object: Ignore, Warn (the "
            "default) or Strict, which rejects the request."
        ),
    )


class DeleteOptions(Kind):
    """Options of a delete request, in its body or in its query parameters."""

    listed = False

    gracePeriodSeconds: int64 | None = field(
        1,
        doc=(
            "Seconds before the object is removed; 0 deletes at once. If unset, the default of "
            "the kind applies."
        ),
    )
    preconditions: Preconditions | None = field(
        2,
        doc=(
            "What must hold for the object to be deleted; if it does not, the request fails with "
            "409 Conflict."
        ),
    )
    orphanDependents: bool | None = field(
        3,
        doc=(
            "Deprecated: use propagationPolicy; must not be set together with it. True keeps the "
            "dependents, false lets them be deleted."
        ),
    )
    propagationPolicy: str | None = field(
        4,
        doc=(
            "What happens to dependents: Orphan keeps them, Background deletes them after the "
            "object, Foreground before it. Defaults to the policy of the kind or of its "
            "finalizers."
        ),
    )
    dryRun: list[str] = field(
        5,
        doc=(
            "All runs every stage of the delete but removes nothing. By default the object is "
            "deleted."
        ),
    )
    ignoreStoreReadErrorWithClusterBreakingPotential: bool | None = field(
        6,
        doc=(
            "Delete an object that cannot be decoded or decrypted, skipping finalizers and "
            "preconditions. Can break workloads that rely on it; excludes all other options."
        ),
    )


class FieldSelectorRequirement(Type):
    """One condition of a field selector on the value of a field."""

    key: str = field(
        1, always=True, required=True, doc="Path of the selected field, such as spec.nodeName."
    )
    operator: str = field(
        2,
        always=True,
        required=True,
        doc=(
            "How the field relates to values: In, NotIn, Exists or DoesNotExist. Newer clients "
            "may send others."
        ),
    )
    values: list[str] = field(
        3,
        doc=(
            "Values to compare with. Required for In and NotIn; must be empty for Exists and "
            "DoesNotExist."
        ),
    )


class GetOptions(Kind):
    """Query parameters of a get request."""

    listed = False

    resourceVersion: str = field(
        1,
        doc=(
            "The oldest version to return. Empty reads the newest state; 0 accepts whatever is "
            "cached."
        ),
    )


class GroupKind(Type):
    """A kind without its version."""

    group: str = field(
        1, always=True, required=True, doc="API group of the kind; empty for the core group."
    )
    kind: str = field(
        2, always=True, required=True, doc="Name of the kind in CamelCase, such as Deployment."
    )


class GroupResource(Type):
    """A resource without its version."""

    group: str = field(
        1, always=True, required=True, doc="API group of the resource; empty for the core group."
    )
    resource: str = field(
        2,
        always=True,
        required=True,
        doc="Plural name of the resource in lower case, such as deployments.",
    )


class GroupVersion(Type):
    """An API group and a version of it."""

    group: str = field(
        1, always=True, required=True, doc="Name of the API group; empty for the core group."
    )
    version: str = field(
        2, always=True, required=True, doc="Version of the group, such as v1 or v1beta1."
    )


class GroupVersionForDiscovery(Type):
    """A version of an API group, in discovery documents."""

    groupVersion: str = field(
        1, always=True, required=True, doc="Group and version joined by a slash, as in apps/v1."
    )
    version: str = field(
        2,
        always=True,
        required=True,
        doc="The version alone, as in v1, which clients need not split off.",
    )


class GroupVersionKind(Type):
    """A kind together with its API group and version."""

    group: str = field(
        1,
        always=True,
        required=True,
        doc="API group that the kind belongs to; empty for the core group.",
    )
    version: str = field(
        2, always=True, required=True, doc="Version of the group that defines the kind, such as v1."
    )
    kind: str = field(
        3, always=True, required=True, doc="Name of the kind in CamelCase, such as Pod."
    )


class GroupVersionResource(Type):
    """A resource together with its API group and version."""

    group: str = field(
        1,
        always=True,
        required=True,
        doc="API group that the resource belongs to; empty for the core group.",
    )
    version: str = field(
        2,
        always=True,
        required=True,
        doc="Version of the group that serves the resource, such as v1.",
    )
    resource: str = field(
        3, always=True, required=True, doc="Plural name of the resource as in URLs, such as pods."
    )


class LabelSelector(Type):
    """Selects objects by their labels. All requirements must be met. An empty selector matches
    every object, a missing one none."""

    atomic = True

    matchLabels: dict[str, str] = field(
        1,
        doc=(
            "Labels and the exact values that objects must have. Each entry equals an In "
            "requirement with one value."
        ),
    )
    matchExpressions: list[LabelSelectorRequirement] = field(
        2,
        doc=(
            "Requirements on labels beyond equality. Objects must meet all of them, and "
            "matchLabels too."
        ),
    )


class LabelSelectorRequirement(Type):
    """One condition of a label selector on the value of a label."""

    key: str = field(
        1, always=True, required=True, doc="Key of the label that the requirement is about."
    )
    operator: str = field(
        2,
        always=True,
        required=True,
        doc="How the label relates to values: In, NotIn, Exists or DoesNotExist.",
    )
    values: list[str] = field(
        3,
        doc=(
            "Label values to compare with. Required for In and NotIn; must be empty for Exists "
            "and DoesNotExist."
        ),
    )


class List(Kind):
    """A list of objects that may be of different kinds."""

    listed = False

    metadata: ListMeta = field(
        1, doc="Standard list metadata: the list's resourceVersion and the token for its next page."
    )
    items: list[RawExtension] = field(
        2,
        always=True,
        required=True,
        doc="The objects of the list, each with its own kind and apiVersion.",
    )


class ListMeta(Type):
    """The metadata of a list."""

    selfLink: str = field(1, doc="Deprecated and always empty. It held the URL of the list.")
    resourceVersion: str = field(
        2,
        doc=(
            "Version of the collection at which the list was read. Opaque; start a watch with it "
            "to see every later change."
        ),
    )
    continue_: str = field(
        3,
        doc=(
            "Token for the continue parameter that fetches the next page, set if there are more "
            "items. It expires within minutes; then the server answers 410 Gone."
        ),
    )
    remainingItemCount: int64 | None = field(
        4,
        doc=(
            "How many items follow this page. Absent on the last page, and for lists with a label "
            "or field selector."
        ),
    )
    shardInfo: ShardInfo | None = field(
        5,
        doc=(
            "The part of the collection that the list covers. Absent if the request has no "
            "shardSelector."
        ),
    )


class ListOptions(Kind):
    """Query parameters of list and watch requests."""

    listed = False

    labelSelector: str = field(
        1,
        doc=(
            "Return only objects whose labels match, as in app=web,tier in (a,b). Empty selects "
            "all objects."
        ),
    )
    fieldSelector: str = field(
        2,
        doc=(
            "Return only objects whose fields match, as in metadata.name=a. Each kind defines "
            "which fields it supports. Empty selects all objects."
        ),
    )
    watch: bool = field(
        3,
        doc=(
            "Stream changes as watch events instead of returning a list. Set resourceVersion to "
            "resume after a known state."
        ),
    )
    allowWatchBookmarks: bool = field(
        9,
        doc=(
            "Ask a watch for BOOKMARK events, which carry the latest resourceVersion at intervals "
            "that the server chooses."
        ),
    )
    resourceVersion: str = field(
        4,
        doc=(
            "Version to list at, as resourceVersionMatch says, or to watch from. Empty reads the "
            "newest state; 0 accepts any cached state."
        ),
    )
    resourceVersionMatch: str = field(
        10,
        doc=(
            "How resourceVersion applies to a list: Exact, or NotOlderThan for that version or a "
            "later one. A list needs resourceVersion with it, a watch sendInitialEvents."
        ),
    )
    timeoutSeconds: int64 | None = field(
        5,
        doc=(
            "Seconds after which the server ends the list or watch, active or not. The server "
            "chooses if unset."
        ),
    )
    limit: int64 = field(
        7,
        doc=(
            "Return at most this many items; the rest follow with the continue token. 0 returns "
            "all. Ignored by a watch."
        ),
    )
    continue_: str = field(
        8,
        doc=(
            "Token from metadata.continue of the previous page, to fetch the next one with "
            "otherwise equal parameters. Not supported for a watch."
        ),
    )
    sendInitialEvents: bool | None = field(
        11,
        doc=(
            "Begin a watch with an ADDED event for each existing object, then a BOOKMARK. Needs "
            "resourceVersionMatch NotOlderThan; not allowed for a list."
        ),
    )
    shardSelector: str = field(
        15,
        doc=(
            "Return only the objects of one shard, selected by a range of hashes of a metadata "
            "field. Empty selects all shards."
        ),
    )


class ManagedFieldsEntry(Type):
    """The fields that one manager set through one API version, operation and subresource."""

    manager: str = field(
        1,
        doc=(
            "Name of the program or person that manages the fields: the fieldManager of the "
            "request, or the start of its User-Agent."
        ),
    )
    operation: str = field(
        2,
        doc="How the fields were set: Apply for server-side apply, Update for every other write.",
    )
    apiVersion: str = field(
        3,
        doc=(
            "API version that the field names belong to, such as apps/v1. Fields of other "
            "versions are not converted."
        ),
    )
    time: Time | None = field(
        4, doc="When the manager last added, changed or removed one of these fields."
    )
    fieldsType: str = field(6, doc="Format of the set of fields. The only value is FieldsV1.")
    fieldsV1: FieldsV1 | None = field(7, doc="The managed fields as a tree in the FieldsV1 format.")
    subresource: str = field(
        8, doc="Subresource that the write went to, such as status; empty for the main resource."
    )


class ObjectMeta(Type):
    """The metadata that every stored object has."""

    name: str = field(
        1,
        doc=(
            "Name of the object, unique within its kind and namespace. Required unless "
            "generateName is set; cannot be updated."
        ),
    )
    generateName: str = field(
        2,
        doc=(
            "Prefix to which the server appends five random characters to make a name, if name is "
            "empty. A clash of names is answered with 409."
        ),
    )
    namespace: str = field(
        3,
        doc=(
            "Namespace that the object is in; defaults to that of the request. Must be empty for "
            "cluster-scoped kinds; cannot be updated."
        ),
    )
    selfLink: str = field(4, doc="Deprecated and always empty. It held the URL of the object.")
    uid: str = field(
        5,
        doc=(
            "Identifier that the server gives the object at creation. It is never used again, not "
            "even for an object of the same name; read-only."
        ),
    )
    resourceVersion: str = field(
        6,
        doc=(
            "Version of the object; changes with every write. Opaque. If an update carries it, "
            "the update fails with 409 unless it is the current one."
        ),
    )
    generation: int64 = field(
        7, doc="Counts the changes of the desired state, from 1. Set by the server; read-only."
    )
    creationTimestamp: Time = field(
        8,
        omit_zero=True,
        doc=(
            "CreationTimestamp is a timestamp that the server sets when the object is created, in "
            "UTC. Read-only."
        ),
    )
    deletionTimestamp: Time | None = field(
        9,
        doc=(
            "When the object is to be removed, set by the server if a delete has to wait for "
            "finalizers or a grace period. Cannot be unset; read-only."
        ),
    )
    deletionGracePeriodSeconds: int64 | None = field(
        10,
        doc=(
            "Seconds the object may take to shut down before it is removed. Set with "
            "deletionTimestamp; may only be shortened."
        ),
    )
    labels: dict[str, str] = field(
        11,
        doc=(
            "Keys and values that selectors use to choose objects. Values have at most 63 "
            "characters."
        ),
    )
    annotations: dict[str, str] = field(
        12,
        doc=(
            "Keys and values for tools and controllers; selectors do not see them. All together "
            "at most 256 KiB."
        ),
    )
    ownerReferences: list[OwnerReference] = field(
        13,
        keys=("uid",),
        merge="uid",
        doc=(
            "Objects that this object depends on. The garbage collector deletes it if none of "
            "them exists any more. At most one may be the controller."
        ),
    )
    finalizers: list[str] = field(
        14,
        set=True,
        merge="",
        doc=(
            "Names of the tasks to finish before the object is removed. Each controller deletes "
            "its own; a deleted object remains until the list is empty."
        ),
    )
    managedFields: list[ManagedFieldsEntry] = field(
        17,
        doc=(
            "Which manager set which fields, for server-side apply. Maintained by the server; a "
            "write of [{}] removes all entries."
        ),
    )


class OwnerReference(Type):
    """An object that owns this one. It must be in the same namespace or be cluster-scoped."""

    atomic = True

    apiVersion: str = field(
        5, always=True, required=True, doc="API version of the owner, such as apps/v1."
    )
    kind: str = field(1, always=True, required=True, doc="Kind of the owner, such as ReplicaSet.")
    name: str = field(
        3,
        always=True,
        required=True,
        doc="Name of the owner. Its uid tells it from other objects of that name.",
    )
    uid: str = field(
        4,
        always=True,
        required=True,
        doc=(
            "metadata.uid of the owner. The garbage collector treats an object of this name with "
            "another uid as absent."
        ),
    )
    controller: bool | None = field(
        6,
        doc=(
            "True if this owner is the managing controller. At most one owner may be. Defaults to "
            "false."
        ),
    )
    blockOwnerDeletion: bool | None = field(
        7,
        doc=(
            "True keeps an owner that is deleted in the foreground until this object is removed. "
            "Defaults to false."
        ),
    )


class PartialObjectMetadata(Kind):
    """An object of any kind, reduced to its metadata."""

    metadata: ObjectMeta = field(
        1, doc="Standard object's metadata, such as its name, labels and owners."
    )


class PartialObjectMetadataList(Kind):
    """A list of objects of any kind, reduced to their metadata."""

    listed = False

    metadata: ListMeta = field(
        1, doc="Standard list metadata: the list's resourceVersion and the token for its next page."
    )
    items: list[PartialObjectMetadata] = field(
        2, always=True, required=True, doc="The metadata of each object of the list."
    )


class PatchOptions(Kind):
    """Query parameters of a patch request, server-side apply included."""

    listed = False

    dryRun: list[str] = field(
        1,
        doc=(
            "All runs every stage of the patch but persists nothing. By default changes are "
            "persisted."
        ),
    )
    force: bool | None = field(
        2,
        doc=(
            "Take over fields that other managers own, instead of failing with a conflict. "
            "Allowed for server-side apply only."
        ),
    )
    fieldManager: str = field(
        3,
        doc=(
            "Name of the manager that makes the change: at most 128 printable characters. "
            "Required for apply; else defaults to the start of the User-Agent."
        ),
    )
    fieldValidation: str = field(
        4,
        doc=(
            "What to do with unknown and duplicate fields of the patch: Ignore, Warn (the "
            "default) or Strict, which rejects it."
        ),
    )


class Preconditions(Type):
    """What must hold for an object to be deleted. Unset fields are not checked."""

    uid: str | None = field(
        1,
        doc=(
            "metadata.uid that the object must have, so that a new object of the same name is not "
            "deleted."
        ),
    )
    resourceVersion: str | None = field(
        2,
        doc=(
            "metadata.resourceVersion that the object must have, so that a changed object is not "
            "deleted."
        ),
    )


class RootPaths(Type):
    """The paths that the server serves, in the answer to `GET /`."""

    paths: list[str] = field(
        1,
        always=True,
        required=True,
        doc="Paths below the root that the server serves, such as /api and /healthz.",
    )


class ServerAddressByClientCIDR(Type):
    """The server's address for clients in one network."""

    clientCIDR: str = field(
        1,
        always=True,
        required=True,
        doc="Network of the clients in CIDR notation, such as 10.0.0.0/8; 0.0.0.0/0 for all.",
    )
    serverAddress: str = field(
        2,
        always=True,
        required=True,
        doc=(
            "Host name or IP address, with an optional port, at which those clients reach the "
            "server."
        ),
    )


class ShardInfo(Type):
    """The part of a collection that a sharded list covers."""

    selector: str = field(
        1, always=True, required=True, doc="The shardSelector of the request that the list answers."
    )


class Status(Kind):
    """The outcome of a request that does not return another object; the body of every error."""

    listed = False

    metadata: ListMeta = field(
        1, doc="Standard list metadata: the list's resourceVersion and the token for its next page."
    )
    status: str = field(2, doc="Outcome of the request: Success or Failure.")
    message: str = field(
        3, doc="What happened, for people; says what to change if the request failed."
    )
    reason: str = field(
        4,
        doc=(
            "A machine-readable CamelCase reason for the failure, such as NotFound, Conflict or "
            "Invalid. Empty if unknown or on success."
        ),
    )
    details: StatusDetails | None = field(
        5, doc="Further data about the outcome; which fields are set depends on reason."
    )
    code: int32 = field(
        6, doc="Suggested HTTP status code of the response, such as 404. 0 if not set."
    )


class StatusCause(Type):
    """One cause of a failed request, such as one invalid field."""

    reason: str = field(
        1,
        doc=(
            "A machine-readable CamelCase type of the cause, such as FieldValueRequired or "
            "FieldValueInvalid."
        ),
    )
    message: str = field(2, doc="What is wrong, for people; says how to repair it where possible.")
    field_: str = field(
        3,
        doc=(
            "Field of the request that caused the failure, as a JSON path such as "
            "spec.containers[0].name."
        ),
    )


class StatusDetails(Type):
    """Machine-readable data about the outcome of a request."""

    name: str = field(
        1, doc="Name of the object or resource that the status is about, if it has one."
    )
    group: str = field(
        2, doc="API group of the object that the status is about; empty for the core group."
    )
    kind: str = field(
        3, doc="Resource or kind that the status is about, in most errors the plural resource name."
    )
    uid: str = field(
        6, doc="metadata.uid of the object that the status is about, if one object is concerned."
    )
    causes: list[StatusCause] = field(
        4, doc="The causes of the failure, for an invalid object one for each invalid field."
    )
    retryAfterSeconds: int32 = field(
        5, doc="Seconds to wait before the request is worth repeating; 0 if not stated."
    )


class TableOptions(Kind):
    """Query parameters of a request whose answer is a Table."""

    listed = False

    includeObject: str = field(
        1,
        doc=(
            "What to put in the object field of each row: Metadata (the default), Object for the "
            "whole object, None for nothing."
        ),
    )


class UpdateOptions(Kind):
    """Query parameters of an update request."""

    listed = False

    dryRun: list[str] = field(
        1,
        doc=(
            "All runs every stage of the update but persists nothing. By default the changes are "
            "persisted."
        ),
    )
    fieldManager: str = field(
        2,
        doc=(
            "Name of the manager that owns the changed fields: at most 128 printable characters. "
            "Defaults to the part of the User-Agent before the first slash."
        ),
    )
    fieldValidation: str = field(
        3,
        doc=(
            "What to do with unknown and duplicate fields of the object: Ignore, Warn (the "
            "default) or Strict, which rejects the update."
        ),
    )


class WatchEvent(Type):
    """One event of a watch."""

    type: str = field(
        1,
        always=True,
        required=True,
        doc=(
            "What happened: ADDED, MODIFIED, DELETED, BOOKMARK (no change, a newer "
            "resourceVersion) or ERROR."
        ),
    )
    object: RawExtension = field(
        2,
        required=True,
        doc=(
            "The object after the change; as it was last for DELETED; resourceVersion only for "
            "BOOKMARK; a Status for ERROR."
        ),
    )


class Table(Kind):
    """Objects as the rows of a table that kubectl prints."""

    listed = False
    wire = False

    metadata: ListMeta = field(
        doc="Standard list metadata: the list's resourceVersion and the token for its next page."
    )
    columnDefinitions: list[TableColumnDefinition] = field(
        always=True,
        required=True,
        doc="The columns of the table, in the order of the cells of each row.",
    )
    rows: list[TableRow] = field(
        always=True, required=True, doc="The rows of the table, one for each object."
    )


class TableColumnDefinition(Type):
    """Header and type of one column of a Table."""

    wire = False

    name: str = field(always=True, required=True, doc="Header of the column, such as Age.")
    type: str = field(
        always=True,
        required=True,
        doc="OpenAPI type of the cells: string, integer, number, boolean, array or object.",
    )
    format: str = field(
        always=True,
        required=True,
        doc=(
            "OpenAPI format of the cells, such as date-time or int32. The format name marks the "
            "column with the object's name."
        ),
    )
    description: str = field(always=True, required=True, doc="What the column shows, for people.")
    priority: int32 = field(
        always=True,
        required=True,
        doc="How dispensable the column is. Columns above 0 are printed in wide output only.",
    )


class TableRow(Type):
    """One object as a row of a Table."""

    wire = False

    cells: list[Any] = field(
        always=True,
        required=True,
        doc=(
            "One value per column, in the order of columnDefinitions. Values have the type of the "
            "column or are null."
        ),
    )
    conditions: list[TableRowCondition] = field(
        doc="Conditions of the row, such as Completed for an object that has finished its work."
    )
    object: RawExtension = field(
        doc=(
            "The object of the row as far as includeObject asks for it; by default its "
            "PartialObjectMetadata."
        )
    )


class TableRowCondition(Type):
    """One condition of a row of a Table."""

    wire = False

    type: str = field(
        always=True, doc="Type of the condition. The only value in use is Completed.", required=True
    )
    status: str = field(
        always=True,
        enum=("True", "False", "Unknown"),
        doc="Whether the row's condition holds: True, False or Unknown.",
        required=True,
    )
    reason: str = field(
        doc="A machine-readable CamelCase reason for the row's condition; may be empty."
    )
    message: str = field(doc="Details of the row's condition for people; may be empty.")
