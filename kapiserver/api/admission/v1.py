"""admission.k8s.io/v1: what a webhook is asked about a write, and what it answers."""

from __future__ import annotations

from kapiserver.api.authentication.v1 import UserInfo
from kapiserver.api.meta.v1 import GroupVersionKind, GroupVersionResource, Status
from kapiserver.api.scalar_types import RawExtension
from kapiserver.api.types import Kind, Type, field


class AdmissionRequest(Type):
    """The write that a webhook is asked about."""

    uid: str = field(1, always=True, doc="Names the question; the answer repeats it.")
    kind: GroupVersionKind = field(2, doc="The kind of the object in the version asked about.")
    resource: GroupVersionResource = field(3, doc="The resource in the version asked about.")
    subResource: str = field(4)
    requestKind: GroupVersionKind | None = field(13)
    requestResource: GroupVersionResource | None = field(14)
    requestSubResource: str = field(15)
    name: str = field(5)
    namespace: str = field(6)
    operation: str = field(7, always=True, doc="CREATE, UPDATE, DELETE or CONNECT.")
    userInfo: UserInfo = field(8, doc="Who writes.")
    object: RawExtension = field(9, doc="The object as it would be.")
    oldObject: RawExtension = field(10, doc="The object as it is.")
    dryRun: bool | None = field(11, doc="Nothing will be kept.")
    options: RawExtension = field(12, doc="The options of the operation.")


class AdmissionResponse(Type):
    """The answer of a webhook."""

    uid: str = field(1, always=True)
    allowed: bool = field(2, always=True, doc="Whether the write may go on.")
    status: Status | None = field(3, doc="Why the write may not go on.")
    patch: bytes = field(4, doc="Changes to the object, as a JSON patch.")
    patchType: str | None = field(5, doc="JSONPatch, the only one there is.")
    auditAnnotations: dict[str, str] = field(6)
    warnings: list[str] = field(7, doc="Words for the client.")


class AdmissionReview(Kind):
    """A question to a webhook, or its answer."""

    listed = False

    request: AdmissionRequest | None = field(1)
    response: AdmissionResponse | None = field(2)
