"""authorization.k8s.io/v1beta1: the types of v1, but for the differences below."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapiserver.api.authorization import v1
from kapiserver.api.types import Type, field, inherit_types, override_field

if TYPE_CHECKING:
    from kapiserver.api.authorization.v1 import (
        ExtraValue,
        NonResourceAttributes,
        ResourceAttributes,
    )

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


class SubjectAccessReviewSpec(Type):
    """The user and the request to check. Set resourceAttributes or nonResourceAttributes, exactly
    one of them."""

    resourceAttributes: ResourceAttributes | None = field(
        1, doc="Request for a resource. Excludes nonResourceAttributes."
    )
    nonResourceAttributes: NonResourceAttributes | None = field(
        2, doc="Request for a path that is not a resource. Excludes resourceAttributes."
    )
    user: str = field(
        3,
        doc=(
            "Name of the user. Required unless group is set. With no groups, the check is for the "
            "user alone."
        ),
    )
    group: list[str] = field(4, doc="Groups that the user is in. Required unless user is set.")
    extra: dict[str, ExtraValue] = field(
        5, doc="Extra attributes of the user, as the authenticator reports them in user.extra."
    )
    uid: str = field(6, doc="Unique identifier of the user.")


class SubjectAccessReviewStatus(v1.SubjectAccessReviewStatus):
    allowed = override_field(required=False)


class SubjectRulesReviewStatus(v1.SubjectRulesReviewStatus):
    resourceRules = override_field(required=False)
    nonResourceRules = override_field(required=False)
    incomplete = override_field(required=False)
