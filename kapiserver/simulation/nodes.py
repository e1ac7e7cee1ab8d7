"""Makes the nodes of `--simulate-nodes`, fills in what a kubelet says about simulated nodes, and
renews their Leases."""

from __future__ import annotations

from kapiserver.api.accessors import resource_version_of
from kapiserver.api.group import CORE
from kapiserver.api.resource_client import ResourceClient, StatusError
from kapiserver.api.types import Tree
from kapiserver.apiserver.version import emulated_minor, git_version
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.event_handlers import for_object
from kapiserver.controllers.loop.writing import create_missing
from kapiserver.simulation.node_objects import (
    NAME_PREFIX,
    RENEW_SECONDS,
    is_simulated,
    lease_of,
    lease_spec,
    network_index,
    new_node,
    node_spec,
    node_status,
)
from kapiserver.storage.cache.entry import Entry, ObjectKey
from kapiserver.storage.kv.contract import Revision

_LEASE_NAMESPACE = "kube-node-lease"
_LEASES_OF_A_TURN = 100
_TURNS = 10
"""The turns in which the Leases of many nodes are renewed, so that other requests come between."""
_TURN_SECONDS = 1.0


class NodeSimulator(Controller[ObjectKey]):
    """Makes simulated nodes and keeps their status as a kubelet does."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        count = self.server.config.simulation.simulate_nodes
        self._to_make = {ObjectKey("", f"{NAME_PREFIX}{index}"): index for index in range(count)}
        """The nodes of `--simulate-nodes` that have not been made yet, and their numbers. A node
        that somebody deletes later stays deleted."""
        release = emulated_minor(self.server.config.features.emulated_version)
        self._version = git_version(release)

    def set_up(self) -> None:
        """Watch nodes, and queue those to make."""
        self._nodes = self.watch(CORE, "nodes", for_object)
        for key in self._to_make:
            self.queue.add(key)

    async def reconcile(self, key: ObjectKey) -> None:
        """Make a node, or bring its status and its spec up to date."""
        nodes = self.context.resource("v1", "nodes")
        entry, index = self._nodes.lister.get(key), self._to_make.pop(key, None)
        if entry is None:
            if index is not None:
                await create_missing(nodes, new_node(index))
            return
        node = entry.tree()
        if not is_simulated(entry.labels):
            return
        spec = node_spec(node, self._free_index)
        if spec != node.get("spec"):
            node = await self._write(node | {"spec": spec})
        status = node_status(node, self._version, self.clock.now())
        if status != node.get("status"):
            await self._write(node | {"status": status}, subresource="status")
            await create_missing(_leases(self.context), lease_of(node, self.clock.now()))

    async def _write(self, node: Tree, *, subresource: str = "") -> Tree:
        """Update a node, and wait until the informer shows it: the next node must not get the same
        network. A Conflict is retried."""
        nodes = self.context.resource("v1", "nodes")
        written = await nodes.update(node, subresource=subresource)
        await self._nodes.wait_for(Revision(int(resource_version_of(written))))
        return written

    def _free_index(self) -> int:
        """Return the first network of pods that no node has or will get."""
        taken = {network_index(entry.tree()) for entry in self._nodes.lister.list()}
        index = self.server.config.simulation.simulate_nodes
        while index in taken:
            index += 1
        return index


class LeaseSimulator(Controller[int]):
    """Renews the Leases of simulated nodes. Its queue holds turns, each for a part of the nodes."""

    def set_up(self) -> None:
        """Watch nodes, and renew periodically."""
        self._nodes = self.watch(CORE, "nodes")
        self.resync(RENEW_SECONDS, lambda: [0])

    async def reconcile(self, turn: int) -> None:
        """Renew the Leases of one turn."""
        entries = self._nodes.lister.list()
        nodes = [entry for entry in entries if is_simulated(entry.labels)]
        size = max(_LEASES_OF_A_TURN, -(-len(nodes) // _TURNS))
        if (turn + 1) * size < len(nodes):
            self.queue.add_after(turn + 1, _TURN_SECONDS)
        for entry in nodes[turn * size : (turn + 1) * size]:
            await self._renew(entry)

    async def _renew(self, node: Entry) -> None:
        leases, name, now = _leases(self.context), node.key.name, self.clock.now()
        try:
            await leases.patch(name, {"spec": lease_spec(name, now)})
        except StatusError as error:
            if error.reason != "NotFound":
                raise
            await create_missing(leases, lease_of(node.tree(), now))


def _leases(context: ControllerContext) -> ResourceClient:
    return context.resource("coordination.k8s.io/v1", "leases", namespace=_LEASE_NAMESPACE)
