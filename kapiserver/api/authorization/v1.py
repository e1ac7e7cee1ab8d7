"""authorization.k8s.io/v1: who may do what."""

from __future__ import annotations

from kapiserver.api.leaves import StringList
from kapiserver.api.meta.v1 import FieldSelectorRequirement, LabelSelectorRequirement, ObjectMeta
from kapiserver.api.types import Kind, Type, field


class ExtraValue(StringList):
    """The values of one further attribute of a user."""


class FieldSelectorAttributes(Type):
    """The field selector of the request that is asked about."""

    rawSelector: str = field(1)
    requirements: list[FieldSelectorRequirement] = field(2)


class LabelSelectorAttributes(Type):
    """The label selector of the request that is asked about."""

    rawSelector: str = field(1)
    requirements: list[LabelSelectorRequirement] = field(2)


class LocalSubjectAccessReview(Kind):
    """Asks whether a user may do something in a namespace."""

    listed = False

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: SubjectAccessReviewSpec = field(2, doc="What is asked.", required=True)
    status: SubjectAccessReviewStatus = field(3, doc="The answer.")


class NonResourceAttributes(Type):
    """A request for a path that is no resource."""

    path: str = field(1)
    verb: str = field(2)


class NonResourceRule(Type):
    """Verbs on paths."""

    verbs: list[str] = field(1, always=True, required=True)
    nonResourceURLs: list[str] = field(2)


class ResourceAttributes(Type):
    """A request for a resource."""

    namespace: str = field(1, doc="The namespace; empty for all, or for cluster resources.")
    verb: str = field(2, doc='The verb, or "*".')
    group: str = field(3, doc='The group, or "*".')
    version: str = field(4)
    resource: str = field(5, doc='The resource, or "*".')
    subresource: str = field(6)
    name: str = field(7, doc="The name; empty for all.")
    fieldSelector: FieldSelectorAttributes | None = field(8)
    labelSelector: LabelSelectorAttributes | None = field(9)


class ResourceRule(Type):
    """Verbs on resources."""

    verbs: list[str] = field(1, always=True, required=True)
    apiGroups: list[str] = field(2)
    resources: list[str] = field(3)
    resourceNames: list[str] = field(4)


class SelfSubjectAccessReview(Kind):
    """Asks whether the caller may do something."""

    listed = False

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: SelfSubjectAccessReviewSpec = field(2, doc="What is asked.", required=True)
    status: SubjectAccessReviewStatus = field(3, doc="The answer.")


class SelfSubjectAccessReviewSpec(Type):
    """The request that is asked about; one of the two is set."""

    resourceAttributes: ResourceAttributes | None = field(1)
    nonResourceAttributes: NonResourceAttributes | None = field(2)


class SelfSubjectRulesReview(Kind):
    """Asks what the caller may do in a namespace."""

    listed = False

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: SelfSubjectRulesReviewSpec = field(2, doc="What is asked.", required=True)
    status: SubjectRulesReviewStatus = field(3, doc="The answer.")


class SelfSubjectRulesReviewSpec(Type):
    """The namespace."""

    namespace: str = field(1)


class SubjectAccessReview(Kind):
    """Asks whether a user may do something."""

    listed = False

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: SubjectAccessReviewSpec = field(2, doc="What is asked.", required=True)
    status: SubjectAccessReviewStatus = field(3, doc="The answer.")


class SubjectAccessReviewSpec(Type):
    """The user, and the request that is asked about."""

    resourceAttributes: ResourceAttributes | None = field(1)
    nonResourceAttributes: NonResourceAttributes | None = field(2)
    user: str = field(3)
    groups: list[str] = field(4)
    extra: dict[str, ExtraValue] = field(5)
    uid: str = field(6)


class SubjectAccessReviewStatus(Type):
    """Whether, and why."""

    allowed: bool = field(1, always=True, doc="Whether it may be done.", required=True)
    denied: bool = field(4, doc="Whether it must not be done, whatever others say.")
    reason: str = field(2, doc="Why.")
    evaluationError: str = field(3, doc="What went wrong in finding out.")


class SubjectRulesReviewStatus(Type):
    """What is allowed, as far as it is known."""

    resourceRules: list[ResourceRule] = field(1, always=True, required=True)
    nonResourceRules: list[NonResourceRule] = field(2, always=True, required=True)
    incomplete: bool = field(3, always=True, required=True)
    evaluationError: str = field(4)
