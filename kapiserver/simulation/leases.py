"""Renews the Leases of simulated nodes whose kubelets run, as the kubelets would.

With many nodes some of them are renewed each second, so that other requests come between.
"""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api.group import CORE
from kapiserver.api.resource_client import StatusError
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.writing import create_missing
from kapiserver.simulation.node_objects import RENEW_SECONDS, has_kubelet, lease_of, lease_spec
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.objects.informer import ObjectChange

_LEASE_NAMESPACE = "kube-node-lease"
_MANY_NODES = 100
_TURN_SECONDS = 1.0
"""The time after which Leases are renewed if there are many nodes."""
_DUE = ""


class LeaseSimulator(Controller[str]):
    """The control loop. Its queue holds the name of a node whose kubelet starts, and `_DUE` for the
    Leases that are to be renewed."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._leases = context.resource(
            "coordination.k8s.io/v1", "leases", namespace=_LEASE_NAMESPACE
        )
        self._renewed: dict[str, float] = {}
        """When the Lease of each node whose kubelet runs was renewed, by the name of the node."""

    def set_up(self) -> None:
        """Watch nodes."""
        self._nodes = self.watch(CORE, "nodes", self._on_node)
        self.queue.add(_DUE)

    def _on_node(self, change: ObjectChange) -> Iterator[str]:
        name = change.last.key.name
        if change.new is None or not has_kubelet(change.new):
            self._renewed.pop(name, None)
        elif name not in self._renewed:
            # Nodes that start together are renewed at different times later.
            self._renewed[name] = self.clock.now() - len(self._renewed) % RENEW_SECONDS
            yield name

    async def reconcile(self, item: str) -> None:
        """Renew the Lease of one node, or of all that are due."""
        if item != _DUE:
            if item in self._renewed:
                await self._renew(item)
            return
        interval = _TURN_SECONDS if len(self._renewed) > _MANY_NODES else RENEW_SECONDS
        self.queue.add_after(_DUE, interval, is_regular=True)
        now = self.clock.now()
        latest = now - RENEW_SECONDS + interval / 2
        for name in [name for name, time in self._renewed.items() if time <= latest]:
            if name in self._renewed:  # its kubelet may have stopped meanwhile
                self._renewed[name] = now
                await self._renew(name)

    async def _renew(self, name: str) -> None:
        try:
            await self._leases.patch(name, {"spec": lease_spec(name, self.clock.now())})
        except StatusError as error:
            if error.reason != "NotFound":
                raise
            await self._create(name)

    async def _create(self, name: str) -> None:
        """Create the Lease of a node, unless the node is gone."""
        node = self._nodes.lister.get(ObjectKey("", name))
        if node is not None:
            await create_missing(self._leases, lease_of(node.tree(), self.clock.now()))
