"""The compiled criteria of a webhook, policy or binding: rules, matchPolicy and selectors.

Mirrors ShouldCallHook of pkg/admission/plugin/webhook/generic and Matcher of
pkg/admission/plugin/policy/matching in k8s.io/apiserver.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from kapiserver.api.accessors import labels_of
from kapiserver.api.label_selectors import selection_of
from kapiserver.api.selectors import EVERYTHING, Selection
from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.matching.rules import (
    RequestedResource,
    ResourceVariant,
    Rule,
    RuleMatch,
    compile_rules,
    match_for_name,
    matching_rules,
)
from kapiserver.apiserver.admission.matching.versioned_objects import VersionedObjects
from kapiserver.apiserver.admission.namespaces import namespace_object
from kapiserver.apiserver.attributes import Attributes
from kapiserver.apiserver.context import Server


class RuleMatches(Struct, frozen=True):
    """The rules of some criteria that match a requested resource."""

    included: tuple[RuleMatch, ...]
    excluded: tuple[RuleMatch, ...]


class Criteria(Struct, frozen=True, kw_only=True):
    """The requests that a webhook, policy or binding is for.

    matches_all     whether all resources match if there are no rules
    """

    rules: tuple[Rule, ...]
    excluded_rules: tuple[Rule, ...] = ()
    matches_all: bool = False
    is_exact: bool
    namespaces: Selection
    objects: Selection

    def match_rules(
        self, request: RequestedResource, equivalents: Sequence[ResourceVariant]
    ) -> RuleMatches | None:
        """Return the rules that match a request for some object name; None if there are none. The
        result is the same for all requests of the resource, so it can be cached."""
        variants = () if self.is_exact else equivalents
        excluded = matching_rules(self.excluded_rules, request, variants)
        if excluded and not excluded[-1].names:
            # Names before an exclusion of all names do not matter.
            return None
        included = (
            (RuleMatch(request.variant, frozenset()),)
            if self.matches_all and not self.rules
            else matching_rules(self.rules, request, variants)
        )
        return RuleMatches(included, excluded) if included else None

    async def match(
        self,
        server: Server,
        attributes: Attributes,
        matches: RuleMatches,
        objects: VersionedObjects,
    ) -> ResourceVariant | None:
        """Return the variant as which a request matches, or None. Raises NotFound if a selector
        needs the labels of a namespace that does not exist."""
        name = attributes.requested_name
        variant = match_for_name(matches.included, name)
        if variant is None or match_for_name(matches.excluded, name) is not None:
            return None
        if not self._selects_objects(objects):
            return None
        if self.namespaces is EVERYTHING or not _has_namespace(attributes):
            return variant
        labels = await _namespace_labels(server, attributes, objects)
        return variant if self.namespaces.matches(labels, {}) else None

    def _selects_objects(self, objects: VersionedObjects) -> bool:
        if self.objects is EVERYTHING:
            return True
        return any(
            obj is not None and "metadata" in obj and self.objects.matches(labels_of(obj), {})
            for obj in (objects.new, objects.old)
        )


def webhook_criteria(webhook: Tree) -> Criteria:
    """Return the criteria of a webhook. Raises BadObject."""
    return Criteria(
        rules=compile_rules(webhook.get("rules")),
        is_exact=webhook.get("matchPolicy") == "Exact",
        namespaces=_selection(webhook, "namespaceSelector"),
        objects=_selection(webhook, "objectSelector"),
    )


def match_resources_criteria(match: Tree | None) -> Criteria:
    """Return the criteria of the MatchResources of a policy or binding; None matches all requests.
    Raises BadObject."""
    match = match or {}
    return Criteria(
        rules=compile_rules(match.get("resourceRules")),
        excluded_rules=compile_rules(match.get("excludeResourceRules")),
        matches_all=True,
        is_exact=match.get("matchPolicy") == "Exact",
        namespaces=_selection(match, "namespaceSelector"),
        objects=_selection(match, "objectSelector"),
    )


def _selection(tree: Tree, name: str) -> Selection:
    selection = selection_of(tree.get(name) or {})
    assert selection is not None
    return selection if selection.labels else EVERYTHING


def _has_namespace(attributes: Attributes) -> bool:
    target = attributes.target
    return bool(target.key.namespace) or target.is_namespace


async def _namespace_labels(
    server: Server, attributes: Attributes, objects: VersionedObjects
) -> dict[str, str]:
    """Return the labels of the request's namespace; those of the object for a write of a namespace.
    Raises NotFound."""
    target = attributes.target
    is_write = attributes.operation in ("CREATE", "UPDATE") and not target.subresource
    if target.is_namespace and is_write and objects.new is not None:
        return dict(labels_of(objects.new))
    return dict(labels_of(await namespace_object(server, attributes.namespace)))
