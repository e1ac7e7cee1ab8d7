"""An index of webhooks or policies by the requests that their rules match.

A request that no rule matches costs one lookup, however many there are. Knows no selector. Mirrors
IsExemptAdmissionConfigurationResource and ExcludeAdmissionWebhookVirtualResources of
k8s.io/apiserver.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Generic, NamedTuple, TypeVar

from kapiserver.api.scheme import Scheme
from kapiserver.apiserver.admission.matching.criteria import Criteria, RuleMatches
from kapiserver.apiserver.admission.matching.equivalent_resources import (
    equivalent_resources,
    requested_resource,
)
from kapiserver.apiserver.attributes import Attributes

Item = TypeVar("Item")

MAX_REQUESTS = 4096
"""Requested resources that an index remembers."""

_CONFIGURATION = frozenset(
    ("admissionregistration.k8s.io", name)
    for name in (
        "mutatingadmissionpolicies", "mutatingadmissionpolicybindings",
        "mutatingwebhookconfigurations", "validatingadmissionpolicies",
        "validatingadmissionpolicybindings", "validatingwebhookconfigurations",
    )
)  # fmt: skip
_REVIEWS = frozenset(
    (
        ("authentication.k8s.io", "selfsubjectreviews"),
        ("authentication.k8s.io", "tokenreviews"),
        ("authorization.k8s.io", "localsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectrulesreviews"),
        ("authorization.k8s.io", "subjectaccessreviews"),
    )
)


class Candidate(NamedTuple, Generic[Item]):
    """An item whose rules match a requested resource."""

    item: Item
    criteria: Criteria
    matches: RuleMatches


class MatchIndex(Generic[Item]):
    """Items in a given order, with the criteria of each; static items come first.

    Only static items, which are not objects of the API, see writes of admission configuration:
    webhook configurations, policies and their bindings. So a fault in an object of the API can
    always be mended. Reviews of authentication and authorization are seen by no item, unless
    `sees_reviews` is set.
    """

    def __init__(
        self,
        scheme: Scheme,
        items: Sequence[tuple[Criteria, Item]],
        static_items: Sequence[tuple[Criteria, Item]] = (),
        *,
        sees_reviews: bool = False,
    ) -> None:
        self._scheme = scheme
        self._sees_reviews = sees_reviews
        self._items = (*static_items, *items)
        self._static_items = static_items
        self._candidates: dict[Hashable, tuple[Candidate[Item], ...]] = {}
        """The candidates, by the parts of a request that rules depend on."""
        self._custom_kinds = scheme.custom

    def candidates(self, attributes: Attributes) -> tuple[Candidate[Item], ...]:
        """Return the items whose rules match a request, in order."""
        if not self._items:
            return ()
        if self._custom_kinds is not self._scheme.custom:
            # Versions of custom resources are equivalent to each other.
            self._custom_kinds = self._scheme.custom
            self._candidates.clear()
        target = attributes.target
        key = (
            attributes.operation,
            target.version,
            target.resource.name,
            target.subresource,
            bool(target.key.namespace),
        )
        candidates = self._candidates.get(key)
        if candidates is None:
            if len(self._candidates) >= MAX_REQUESTS:
                self._candidates.clear()
            candidates = self._candidates[key] = self._find(attributes)
        return candidates

    def _find(self, attributes: Attributes) -> tuple[Candidate[Item], ...]:
        resource = attributes.target.resource
        if (resource.group, resource.name) in _REVIEWS and not self._sees_reviews:
            return ()
        is_configuration = (resource.group, resource.name) in _CONFIGURATION
        items = self._static_items if is_configuration else self._items
        request = requested_resource(attributes)
        equivalents = equivalent_resources(self._scheme, attributes.target)
        candidates = []
        for criteria, item in items:
            matches = criteria.match_rules(request, equivalents)
            if matches is not None:
                candidates.append(Candidate(item, criteria, matches))
        return tuple(candidates)
