"""Write the rules of aggregated cluster roles: those of all roles that their selectors match.

Mirrors pkg/controller/clusterroleaggregation of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Sequence

from kapiserver.api.accessors import is_terminating, labels_of
from kapiserver.api.errors import BadObject
from kapiserver.api.label_selectors import selection_of
from kapiserver.api.types import Tree
from kapiserver.apiserver.authorization.rbac_index import RBAC
from kapiserver.controllers.context import ControllerContext
from kapiserver.controllers.subscriptions import Subscriptions
from kapiserver.controllers.workqueue import WorkQueue
from kapiserver.controllers.writing import suppress_reason
from kapiserver.storage.entry import Entry, ObjectKey
from kapiserver.storage.informer import ObjectChange

NAME = "clusterrole-aggregation-controller"
WORKERS = 4


class ClusterRoleAggregationController:
    """The control loop; its queue holds keys of aggregated cluster roles."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        server = context.server
        self._aggregated: set[ObjectKey] = set()
        self._subscriptions = Subscriptions(server)
        self._queue: WorkQueue[ObjectKey] = context.work_queue(
            self._reconcile, workers=WORKERS, name=NAME
        )

    async def start(self) -> None:
        """Subscribe to cluster roles."""
        self._roles = self._subscriptions.add(RBAC, "clusterroles", self._on_role)

    async def stop(self) -> None:
        """End, cancelling reconciles in progress."""
        self._subscriptions.cancel()
        await self._queue.stop()

    def _on_role(self, change: ObjectChange) -> None:
        """Queue all aggregated roles: a change of labels or rules may concern any of them."""
        key = change.last.key
        if change.new is not None and _selectors(change.new.tree()):
            self._aggregated.add(key)
        else:
            self._aggregated.discard(key)
        for aggregated in self._aggregated:
            self._queue.add(aggregated)

    async def _reconcile(self, key: ObjectKey) -> None:
        await self._subscriptions.wait_synced()
        entry = self._roles.lister.get(key)
        if entry is None or is_terminating(entry.tree()):
            return
        role = entry.tree()
        rules = _aggregated_rules(role, self._roles.lister.list())
        if rules == (role.get("rules") or []):
            return
        configuration = {
            "kind": "ClusterRole",
            "apiVersion": str(RBAC),
            "metadata": {"name": key.name},
            "rules": rules,
        }
        roles = self._context.resource(str(RBAC), "clusterroles")
        with suppress_reason("NotFound"):
            await roles.apply(configuration, manager=self._context.manager, force=1)


def _selectors(role: Tree) -> Sequence[Tree]:
    return (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or ()


def _aggregated_rules(role: Tree, entries: Sequence[Entry]) -> list[Tree]:
    """Return the rules of all selected roles, without duplicates, sorted by the roles' names."""
    rules: list[Tree] = []
    for selector in _selectors(role):
        try:
            selection = selection_of(selector)
        except BadObject:  # such a selector selects nothing
            continue
        for entry in entries:
            other = entry.tree()
            if other["metadata"]["name"] == role["metadata"]["name"]:
                continue
            if selection is not None and selection.matches(labels_of(other), {}):
                rules.extend(rule for rule in other.get("rules") or () if rule not in rules)
    return rules
