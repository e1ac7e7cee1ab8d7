"""Write the rules of aggregated cluster roles: those of all roles that their selectors match.

Decodes the rules of selected roles only: most of the bootstrap policy is not selected.
Mirrors pkg/controller/clusterroleaggregation of Kubernetes.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence

from kapiserver.api.accessors import is_terminating, labels_of, name_of
from kapiserver.api.errors import BadObject
from kapiserver.api.label_selectors import selection_of
from kapiserver.api.selectors import Selection
from kapiserver.api.types import Tree
from kapiserver.apiserver.authorization.rbac.index import RBAC
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.writing import suppress_reason
from kapiserver.storage.cache.entry import Entry, ObjectKey
from kapiserver.storage.objects.informer import ObjectChange
from kapiserver.storage.objects.partial_decode import partial_type

MANAGER = "clusterrole-aggregation-controller"
"""The field manager of the rules that this controller applies."""


class ClusterRoleAggregationController(Controller[ObjectKey]):
    """The control loop; its queue holds keys of aggregated cluster roles."""

    workers = 4

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._codec = context.server.stores.by_name(RBAC, "clusterroles").codec
        self._aggregated: set[ObjectKey] = set()

    def set_up(self) -> None:
        """Watch cluster roles."""
        self._roles = self.watch(RBAC, "clusterroles", self._aggregated_roles)

    def _aggregated_roles(self, change: ObjectChange) -> Iterable[ObjectKey]:
        """Return all aggregated roles: a change of labels or rules may concern any of them."""
        key = change.last.key
        if change.new is not None and self._is_aggregated(change.new):
            self._aggregated.add(key)
        else:
            self._aggregated.discard(key)
        return sorted(self._aggregated)

    def _is_aggregated(self, entry: Entry) -> bool:
        """Report whether a role has selectors, without decoding its rules."""
        role = entry.cached_tree
        if role is None:
            role = self._codec.decode_part(entry, self._decode_aggregation_rule)
        return bool(_selectors(role))

    @functools.cached_property
    def _decode_aggregation_rule(self) -> Callable[[bytes], Tree]:
        from kapiserver.codecs.protobuf.messages import message_decoder

        return message_decoder(partial_type(self._codec.type, ("aggregationRule",)))

    async def reconcile(self, key: ObjectKey) -> None:
        """Apply the rules of an aggregated role."""
        entry = self._roles.lister.get(key)
        if entry is None or is_terminating(entry.tree()):
            return
        role = entry.tree()
        selections = list(_selections(role))
        selected = [
            candidate.tree()
            for candidate in self._roles.lister.list()
            if any(candidate.is_selected(selection) for selection in selections)
        ]
        rules = aggregated_rules(role, selected)
        if rules == (role.get("rules") or []):
            return
        configuration = {
            "kind": "ClusterRole",
            "apiVersion": str(RBAC),
            "metadata": {"name": key.name},
            "rules": rules,
        }
        roles = self.context.resource(str(RBAC), "clusterroles")
        with suppress_reason("NotFound"):
            await roles.apply(configuration, manager=self.context.manager, force=1)


def _selectors(role: Tree) -> Sequence[Tree]:
    return (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or ()


def _selections(role: Tree) -> Iterator[Selection]:
    for selector in _selectors(role):
        selection = None
        with contextlib.suppress(BadObject):  # such a selector selects nothing
            selection = selection_of(selector)
        if selection is not None:
            yield selection


def aggregated_rules(role: Tree, cluster_roles: Sequence[Tree]) -> list[Tree]:
    """Return the rules of all cluster roles that an aggregated one selects, without duplicates, in
    the order of `cluster_roles`, which may include the role itself."""
    rules: list[Tree] = []
    for selection in _selections(role):
        for cluster_role in cluster_roles:
            if name_of(cluster_role) == name_of(role):
                continue
            if selection.matches(labels_of(cluster_role), {}):
                rules.extend(rule for rule in cluster_role.get("rules") or () if rule not in rules)
    return rules
