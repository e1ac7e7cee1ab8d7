"""authentication.k8s.io/v1beta1: the types of v1; the differences are below."""

from __future__ import annotations

from kapiserver.api.authentication import v1
from kapiserver.api.types import field, inherit_types

inherit_types(
    __name__,
    v1,
    without=(
        "AttestationValue",
        "BoundObjectReference",
        "TokenRequest",
        "TokenRequestSpec",
        "TokenRequestStatus",
    ),
)


class SelfSubjectReviewStatus(v1.SelfSubjectReviewStatus):
    userInfo: v1.UserInfo = field(
        1,
        doc=(
            "Name, uid, groups and extra attributes of the user who made the request, after "
            "impersonation."
        ),
    )
