"""authentication.k8s.io/v1alpha1: some types of v1."""

from __future__ import annotations

from kapiserver.api.authentication import v1
from kapiserver.api.types import inherit_types

inherit_types(
    __name__,
    v1,
    only=(
        "SelfSubjectReview",
        "SelfSubjectReviewStatus",
    ),
)
