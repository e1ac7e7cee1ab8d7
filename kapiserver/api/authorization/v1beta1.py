"""authorization.k8s.io/v1beta1: the types of v1; the differences are below."""

from __future__ import annotations

from kapiserver.api.authorization import v1
from kapiserver.api.types import field, inherit_types, override_field, remove_field

inherit_types(
    __name__,
    v1,
    without=(
        "FieldSelectorAttributes",
        "LabelSelectorAttributes",
    ),
)


class LocalSubjectAccessReview(v1.LocalSubjectAccessReview):
    spec = override_field(required=False)


class NonResourceRule(v1.NonResourceRule):
    verbs = override_field(required=False)


class ResourceRule(v1.ResourceRule):
    verbs = override_field(required=False)


class SelfSubjectAccessReview(v1.SelfSubjectAccessReview):
    spec = override_field(required=False)


class SelfSubjectRulesReview(v1.SelfSubjectRulesReview):
    spec = override_field(required=False)


class SubjectAccessReview(v1.SubjectAccessReview):
    spec = override_field(required=False)


class SubjectAccessReviewSpec(v1.SubjectAccessReviewSpec):
    user = override_field(
        doc=(
            "Name of the user. Required unless group is set. With no groups, the check is for the "
            "user alone."
        )
    )
    group: list[str] = field(
        4, before="groups", doc="Groups that the user is in. Required unless user is set."
    )
    groups = remove_field()


class SubjectAccessReviewStatus(v1.SubjectAccessReviewStatus):
    allowed = override_field(required=False)


class SubjectRulesReviewStatus(v1.SubjectRulesReviewStatus):
    resourceRules = override_field(required=False)
    nonResourceRules = override_field(required=False)
    incomplete = override_field(required=False)
