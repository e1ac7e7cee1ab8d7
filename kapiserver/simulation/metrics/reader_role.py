"""The role that lets users read metrics, as metrics-server installs it."""

from __future__ import annotations

from kapiserver.api.types import Tree
from kapiserver.apiserver.authorization.policy_rules import GROUP, READ, rule
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.writing import create_missing

METRICS_READER: Tree = {
    "metadata": {
        "name": "system:aggregated-metrics-reader",
        "labels": {f"{GROUP}/aggregate-to-{role}": "true" for role in ("admin", "edit", "view")},
    },
    "rules": [rule(READ, "metrics.k8s.io", "nodes pods")],
}
"""Added to the roles view, edit and admin, whose users may then use `kubectl top`."""


class MetricsReaderInstaller(Controller[str]):
    """Creates the role once, at the start. One that exists, or that somebody deletes, stays so."""

    def set_up(self) -> None:
        """Queue the role."""
        self.queue.add(METRICS_READER["metadata"]["name"])

    async def reconcile(self, _name: str) -> None:
        """Create the role unless it exists."""
        roles = self.context.resource("rbac.authorization.k8s.io/v1", "clusterroles")
        await create_missing(roles, METRICS_READER)
