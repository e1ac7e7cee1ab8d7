"""admission.k8s.io/v1: the reviews that admission webhooks receive and return."""

from __future__ import annotations

from kapiserver.api.authentication.v1 import UserInfo
from kapiserver.api.meta.v1 import GroupVersionKind, GroupVersionResource, Status
from kapiserver.api.scalar_types import RawExtension
from kapiserver.api.types import Kind, Type, field


class AdmissionRequest(Type):
    """The API request that an admission webhook is asked about."""

    uid: str = field(
        1,
        always=True,
        doc="Identifies this call among all webhook calls; the response must repeat it.",
    )
    kind: GroupVersionKind = field(
        2,
        doc=(
            "Kind of object and oldObject in this call, after conversion for matchPolicy "
            "Equivalent."
        ),
    )
    resource: GroupVersionResource = field(
        3, doc="Resource of the request, in the version of this call."
    )
    subResource: str = field(
        4,
        doc=(
            "Subresource of the request, such as status or scale, in the version of this call. "
            "Empty for the resource itself."
        ),
    )
    requestKind: GroupVersionKind | None = field(
        13,
        doc=(
            "Kind of the original API request, before conversion. Equals kind if nothing was "
            "converted."
        ),
    )
    requestResource: GroupVersionResource | None = field(
        14,
        doc=(
            "Resource of the original API request, before conversion. Equals resource if nothing "
            "was converted."
        ),
    )
    requestSubResource: str = field(
        15, doc="Subresource of the original API request. Empty for the resource itself."
    )
    name: str = field(
        5, doc="Name of the object. Empty on a create whose name the server generates."
    )
    namespace: str = field(6, doc="Namespace of the request; empty for cluster-scoped resources.")
    operation: str = field(
        7, always=True, doc="What the request does: CREATE, UPDATE, DELETE or CONNECT."
    )
    userInfo: UserInfo = field(8, doc="The user who made the request.")
    object: RawExtension = field(
        9, doc="The object that is to be written, or the options of CONNECT. Null for DELETE."
    )
    oldObject: RawExtension = field(10, doc="The existing object. Null for CREATE and CONNECT.")
    dryRun: bool | None = field(
        11,
        doc=(
            "True if the request persists nothing; the webhook must then have no side effects. "
            "Defaults to false."
        ),
    )
    options: RawExtension = field(
        12,
        doc=(
            "Options of the operation, such as CreateOptions or DeleteOptions, with their kind "
            "and apiVersion."
        ),
    )


class AdmissionResponse(Type):
    """The answer of an admission webhook."""

    uid: str = field(1, always=True, doc="The uid of the request that this response answers.")
    allowed: bool = field(2, always=True, doc="True to admit the request, false to reject it.")
    status: Status | None = field(
        3,
        doc=(
            "Why the request is rejected: its message and code reach the client. Ignored if "
            "allowed is true."
        ),
    )
    patch: bytes = field(
        4,
        doc=(
            "JSON patch to apply to the object, base64-encoded. Mutating webhooks only; needs "
            "patchType."
        ),
    )
    patchType: str | None = field(5, doc="Form of patch. The only value is JSONPatch.")
    auditAnnotations: dict[str, str] = field(
        6,
        doc=(
            "Annotations for the audit event of the request. The server puts the webhook's name "
            "and a slash before each key."
        ),
    )
    warnings: list[str] = field(
        7,
        doc=(
            'Warnings to return to the client, without the prefix "Warning:". Keep each below 120 '
            "characters."
        ),
    )


class AdmissionReview(Kind):
    """The body of a call to an admission webhook, and of its answer."""

    listed = False

    request: AdmissionRequest | None = field(
        1, doc="The request to admit. Set by the API server when it calls the webhook."
    )
    response: AdmissionResponse | None = field(
        2, doc="The decision about the request. Set by the webhook."
    )
