"""authorization.k8s.io/v1: who may do what."""

from __future__ import annotations

from kapiserver.api.meta.v1 import FieldSelectorRequirement, LabelSelectorRequirement, ObjectMeta
from kapiserver.api.scalar_types import StringList
from kapiserver.api.types import Kind, Type, field


class ExtraValue(StringList):
    """The values of one further attribute of a user."""


class FieldSelectorAttributes(Type):
    """The field selector of the request that is asked about."""

    rawSelector: str = field(1, doc="The selector as it was sent.")
    requirements: list[FieldSelectorRequirement] = field(2, doc="The selector, taken apart.")


class LabelSelectorAttributes(Type):
    """The label selector of the request that is asked about."""

    rawSelector: str = field(1, doc="The selector as it was sent.")
    requirements: list[LabelSelectorRequirement] = field(2, doc="The selector, taken apart.")


class LocalSubjectAccessReview(Kind):
    """Asks whether a user may do something in a namespace."""

    listed = False

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: SubjectAccessReviewSpec = field(2, doc="What is asked.", required=True)
    status: SubjectAccessReviewStatus = field(3, doc="The answer.")


class NonResourceAttributes(Type):
    """A request for a path that is no resource."""

    path: str = field(1, doc="The path of the request.")
    verb: str = field(2, doc="The method, in lower case.")


class NonResourceRule(Type):
    """Verbs on paths."""

    verbs: list[str] = field(1, always=True, required=True, doc="What may be done; *: everything.")
    nonResourceURLs: list[str] = field(
        2, doc="Paths that are no resource; * at the end: all below."
    )


class ResourceAttributes(Type):
    """A request for a resource."""

    namespace: str = field(1, doc="The namespace; empty for all, or for cluster resources.")
    verb: str = field(2, doc='The verb, or "*".')
    group: str = field(3, doc='The group, or "*".')
    version: str = field(4, doc="The version.")
    resource: str = field(5, doc='The resource, or "*".')
    subresource: str = field(6, doc="The part of the object, as status.")
    name: str = field(7, doc="The name; empty for all.")
    fieldSelector: FieldSelectorAttributes | None = field(
        8, doc="Which objects of a list, by fields."
    )
    labelSelector: LabelSelectorAttributes | None = field(
        9, doc="Which objects of a list, by labels."
    )


class ResourceRule(Type):
    """Verbs on resources."""

    verbs: list[str] = field(1, always=True, required=True, doc="What may be done; *: everything.")
    apiGroups: list[str] = field(2, doc="The API groups; *: all.")
    resources: list[str] = field(3, doc="The resources; *: all.")
    resourceNames: list[str] = field(4, doc="Names of objects; none: all.")


class SelfSubjectAccessReview(Kind):
    """Asks whether the caller may do something."""

    listed = False

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: SelfSubjectAccessReviewSpec = field(2, doc="What is asked.", required=True)
    status: SubjectAccessReviewStatus = field(3, doc="The answer.")


class SelfSubjectAccessReviewSpec(Type):
    """The request that is asked about; one of the two is set."""

    resourceAttributes: ResourceAttributes | None = field(1, doc="A request for a resource.")
    nonResourceAttributes: NonResourceAttributes | None = field(
        2, doc="A request for another path."
    )


class SelfSubjectRulesReview(Kind):
    """Asks what the caller may do in a namespace."""

    listed = False

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: SelfSubjectRulesReviewSpec = field(2, doc="What is asked.", required=True)
    status: SubjectRulesReviewStatus = field(3, doc="The answer.")


class SelfSubjectRulesReviewSpec(Type):
    """The namespace."""

    namespace: str = field(1, doc="The namespace it is about.")


class SubjectAccessReview(Kind):
    """Asks whether a user may do something."""

    listed = False

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: SubjectAccessReviewSpec = field(2, doc="What is asked.", required=True)
    status: SubjectAccessReviewStatus = field(3, doc="The answer.")


class SubjectAccessReviewSpec(Type):
    """The user, and the request that is asked about."""

    resourceAttributes: ResourceAttributes | None = field(1, doc="A request for a resource.")
    nonResourceAttributes: NonResourceAttributes | None = field(
        2, doc="A request for another path."
    )
    user: str = field(3, doc="The user, by name.")
    groups: list[str] = field(4, doc="The groups.")
    extra: dict[str, ExtraValue] = field(5, doc="What else is known of the user.")
    uid: str = field(6, doc="Its uid.")


class SubjectAccessReviewStatus(Type):
    """Whether, and why."""

    allowed: bool = field(1, always=True, doc="Whether it may be done.", required=True)
    denied: bool = field(4, doc="Whether it must not be done, whatever others say.")
    reason: str = field(2, doc="Why.")
    evaluationError: str = field(3, doc="What went wrong in finding out.")


class SubjectRulesReviewStatus(Type):
    """What is allowed, as far as it is known."""

    resourceRules: list[ResourceRule] = field(
        1, always=True, required=True, doc="Rules about resources."
    )
    nonResourceRules: list[NonResourceRule] = field(
        2, always=True, required=True, doc="Rules about other paths."
    )
    incomplete: bool = field(3, always=True, required=True, doc="Whether there may be more rules.")
    evaluationError: str = field(4, doc="What went wrong on the way.")
