"""authorization.k8s.io/v1: reviews that check what a user may do."""

from __future__ import annotations

from kapiserver.api.meta.v1 import FieldSelectorRequirement, LabelSelectorRequirement, ObjectMeta
from kapiserver.api.scalar_types import StringList
from kapiserver.api.types import Kind, Type, field


class ExtraValue(StringList):
    """The values of one extra attribute of a user."""


class FieldSelectorAttributes(Type):
    """The field selector of the request to check: rawSelector or requirements, exactly one of
    them."""

    rawSelector: str = field(
        1,
        doc=(
            "The selector as a query parameter has it, such as spec.nodeName=a. A selector that "
            "cannot be parsed is ignored. Excludes requirements."
        ),
    )
    requirements: list[FieldSelectorRequirement] = field(
        2, doc="The parsed selector; all requirements apply. Excludes rawSelector."
    )


class LabelSelectorAttributes(Type):
    """The label selector of the request to check: rawSelector or requirements, exactly one of
    them."""

    rawSelector: str = field(
        1,
        doc=(
            "The selector as a query parameter has it, such as app=web. A selector that cannot be "
            "parsed is ignored. Excludes requirements."
        ),
    )
    requirements: list[LabelSelectorRequirement] = field(
        2, doc="The parsed selector; all requirements apply. Excludes rawSelector."
    )


class LocalSubjectAccessReview(Kind):
    """Checks whether a user may do something in one namespace. Create it there; the answer is in
    status."""

    listed = False

    metadata: ObjectMeta = field(
        1, doc="Standard object's metadata. Must be empty except for namespace."
    )
    spec: SubjectAccessReviewSpec = field(
        2,
        doc=(
            "The user and the request to check. resourceAttributes.namespace must be that of the "
            "review; nonResourceAttributes is not allowed."
        ),
        required=True,
    )
    status: SubjectAccessReviewStatus = field(
        3, doc="Whether the request is allowed. Set by the server."
    )


class NonResourceAttributes(Type):
    """A request for a path that is not a resource."""

    path: str = field(1, doc="URL path of the request, such as /healthz.")
    verb: str = field(2, doc="HTTP method of the request in lower case, such as get.")


class NonResourceRule(Type):
    """Allowed verbs on paths that are not resources."""

    verbs: list[str] = field(
        1, always=True, required=True, doc='Allowed HTTP methods in lower case; "*" allows all.'
    )
    nonResourceURLs: list[str] = field(
        2,
        doc=(
            "Paths that the verbs are allowed on, such as /healthz; * may stand at the end and "
            "matches the rest."
        ),
    )


class ResourceAttributes(Type):
    """A request for a resource."""

    namespace: str = field(
        1,
        doc=(
            "Namespace of the request. Empty means all namespaces, or no namespace if the "
            "resource is cluster-scoped."
        ),
    )
    verb: str = field(
        2,
        doc=(
            "Verb of the request, such as get, list, watch, create, update, patch, delete or "
            'deletecollection; "*" means all.'
        ),
    )
    group: str = field(3, doc='API group of the resource; "" is the core group, "*" means all.')
    version: str = field(4, doc='API version of the resource; "*" means all. RBAC ignores it.')
    resource: str = field(5, doc='Plural name of the resource, such as pods; "*" means all.')
    subresource: str = field(
        6, doc="Subresource of the request, such as status; empty means the resource itself."
    )
    name: str = field(7, doc="Name of the object; empty means all objects.")
    fieldSelector: FieldSelectorAttributes | None = field(
        8,
        doc=(
            "Field selector of a list, watch or deletecollection request. Authorizers may allow "
            "only requests limited by it."
        ),
    )
    labelSelector: LabelSelectorAttributes | None = field(
        9,
        doc=(
            "Label selector of a list, watch or deletecollection request. Authorizers may allow "
            "only requests limited by it."
        ),
    )


class ResourceRule(Type):
    """Allowed verbs on resources."""

    verbs: list[str] = field(
        1,
        always=True,
        required=True,
        doc='Allowed verbs, such as get, list and create; "*" allows all.',
    )
    apiGroups: list[str] = field(
        2, doc='API groups of the resources; "" is the core group, "*" means all.'
    )
    resources: list[str] = field(
        3,
        doc=(
            'Plural names of the resources, such as pods or pods/log; "*" means all, */scale the '
            "scale subresource of all."
        ),
    )
    resourceNames: list[str] = field(
        4, doc="Names of the objects that the rule is limited to. Empty means all."
    )


class SelfSubjectAccessReview(Kind):
    """Checks whether the user who creates it may do something. The answer is in status."""

    listed = False

    metadata: ObjectMeta = field(1, doc="Standard object's metadata. Must be empty.")
    spec: SelfSubjectAccessReviewSpec = field(2, doc="The request to check.", required=True)
    status: SubjectAccessReviewStatus = field(
        3, doc="Whether the request is allowed. Set by the server."
    )


class SelfSubjectAccessReviewSpec(Type):
    """The request to check: resourceAttributes or nonResourceAttributes, exactly one of them."""

    resourceAttributes: ResourceAttributes | None = field(
        1, doc="Request for a resource. Excludes nonResourceAttributes."
    )
    nonResourceAttributes: NonResourceAttributes | None = field(
        2, doc="Request for a path that is not a resource. Excludes resourceAttributes."
    )


class SelfSubjectRulesReview(Kind):
    """Lists what the user who creates it may do in a namespace. For display only: check single
    requests with SelfSubjectAccessReview."""

    listed = False

    metadata: ObjectMeta = field(
        1, doc="Standard object's metadata, such as its name, labels and owners."
    )
    spec: SelfSubjectRulesReviewSpec = field(
        2, doc="The namespace to list the permissions for.", required=True
    )
    status: SubjectRulesReviewStatus = field(
        3, doc="The permissions of the user. Set by the server."
    )


class SelfSubjectRulesReviewSpec(Type):
    """The namespace to list permissions for."""

    namespace: str = field(1, doc="Namespace that the listed permissions apply to. Required.")


class SubjectAccessReview(Kind):
    """Checks whether a user may do something in any namespace or in none. The answer is in
    status."""

    listed = False

    metadata: ObjectMeta = field(1, doc="Standard object's metadata. Must be empty.")
    spec: SubjectAccessReviewSpec = field(
        2, doc="The user and the request to check.", required=True
    )
    status: SubjectAccessReviewStatus = field(
        3, doc="Whether the request is allowed. Set by the server."
    )


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
            "Name of the user. Required unless groups is set. With no groups, the check is for "
            "the user alone."
        ),
    )
    groups: list[str] = field(4, doc="Groups that the user is in. Required unless user is set.")
    extra: dict[str, ExtraValue] = field(
        5, doc="Extra attributes of the user, as the authenticator reports them in user.extra."
    )
    uid: str = field(6, doc="Unique identifier of the user.")


class SubjectAccessReviewStatus(Type):
    """Whether the checked request is allowed."""

    allowed: bool = field(
        1, always=True, doc="True if the user may make the request.", required=True
    )
    denied: bool = field(
        4,
        doc=(
            "True if an authorizer denies the request, so that no other may allow it. Both "
            "allowed and denied false means that none has an opinion."
        ),
    )
    reason: str = field(2, doc="Why the request is allowed or denied, for people; may be empty.")
    evaluationError: str = field(
        3,
        doc=(
            "Error that happened during the check, if any. The fields allowed and denied are "
            "valid nevertheless."
        ),
    )


class SubjectRulesReviewStatus(Type):
    """The permissions of a user in a namespace, as far as they can be listed. Their order has no
    meaning."""

    resourceRules: list[ResourceRule] = field(
        1, always=True, required=True, doc="Actions that the user may take on resources."
    )
    nonResourceRules: list[NonResourceRule] = field(
        2,
        always=True,
        required=True,
        doc="Actions that the user may take on paths that are not resources.",
    )
    incomplete: bool = field(
        3,
        always=True,
        required=True,
        doc="True if the lists may lack rules, because an authorizer cannot list rules or failed.",
    )
    evaluationError: str = field(
        4, doc="Errors that happened while the rules were listed; empty if there was none."
    )
