"""authentication.k8s.io/v1alpha1: who a token or a caller is."""

from __future__ import annotations

from kapiserver.api.authentication.v1 import UserInfo
from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.types import Kind, Type, field


class SelfSubjectReview(Kind):
    """Who the caller is."""

    listed = False

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    status: SelfSubjectReviewStatus = field(2, doc="The answer.")


class SelfSubjectReviewStatus(Type):
    """The caller as the server sees it."""

    userInfo: UserInfo = field(1)
