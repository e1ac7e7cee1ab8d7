"""Makes the nodes of `--simulate-nodes` and `--simulate-nodes-from`, and fills in what a kubelet
says about simulated nodes."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from kapiserver.api.accessors import name_of
from kapiserver.api.group import CORE
from kapiserver.api.resource_client import StatusError
from kapiserver.api.types import Tree
from kapiserver.apiserver.config import SimulationSettings
from kapiserver.apiserver.version import emulated_minor, git_version
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.writing import create_missing, suppress_reason
from kapiserver.simulation.kwok.stages.lifecycles import NODE, StagedKind
from kapiserver.simulation.networks import NetworkPool, network_index
from kapiserver.simulation.node_conditions import seconds_to_report
from kapiserver.simulation.node_objects import (
    has_kubelet,
    new_node,
    node_spec,
    node_status,
)
from kapiserver.simulation.node_templates import read_nodes
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.objects.informer import ObjectChange

_HOOK = "simulated-nodes"
"""The step of the start that ends when the nodes exist."""

_log = logging.getLogger(__name__)


class NodeSimulator(Controller[ObjectKey]):
    """Makes simulated nodes and keeps their status as a kubelet does."""

    def __init__(self, context: ControllerContext) -> None:
        """Raise BadConfiguration for an unusable file of nodes."""
        super().__init__(context)
        settings = self.server.config.simulation
        count = number_of_nodes(settings)
        self._networks = NetworkPool(count)
        nodes = [new_node(index) for index in range(count)]
        if settings.simulate_nodes_from is not None:
            nodes += read_nodes(settings.simulate_nodes_from)
        self._to_make = {ObjectKey("", name_of(node)): node for node in nodes}
        """The nodes that have not been made yet. A node that somebody deletes later stays
        deleted."""
        release = emulated_minor(self.server.config.features.emulated_version)
        self._version = git_version(release)

    def set_up(self) -> None:
        """Watch nodes, and queue those to make. The server is not ready before they exist, unless
        several share the store, of which only one makes them."""
        if self._to_make and not self.server.stores.kv.shared:
            self.server.health.add_hook(_HOOK)
        self._nodes = self.watch(CORE, "nodes", self._on_node)
        self._staged = StagedKind(self, NODE, self._all_nodes)
        for key in self._to_make:
            self.queue.add(key)

    def _all_nodes(self) -> Iterable[ObjectKey]:
        return [entry.key for entry in self._nodes.lister.list()]

    def _on_node(self, change: ObjectChange) -> Iterable[ObjectKey]:
        """Note the network of a node, and queue the node."""
        key = change.last.key
        index = network_index(change.new.tree()) if change.new is not None else None
        if index is not None:
            self._networks.keep(key.name, index)
        elif change.new is None:
            self._networks.release(key.name)
        return (key,)

    async def reconcile(self, key: ObjectKey) -> None:
        """Make a node, or bring its status and its spec up to date."""
        entry, new = self._nodes.lister.get(key), self._to_make.get(key)
        if new is not None:
            if entry is None:
                await self._make(new)
            del self._to_make[key]
            if not self._to_make:
                self.server.health.finish(_HOOK)
        if entry is None or not has_kubelet(entry):
            return
        # After a Conflict the change of the other writer is delivered and reconciled.
        with suppress_reason("NotFound", "Conflict"):
            await self._report(entry.tree())

    async def _report(self, node: Tree) -> None:
        """Give a node a network, write what a kubelet says about it, unless Stages do, and plan the
        next report. Raises StatusError."""
        nodes, reported = self.context.resource("v1", "nodes"), self._reported(node)
        if reported["spec"] != (node.get("spec") or {}):
            node = await nodes.shared.update(node | {"spec": reported["spec"]})
        if self._staged.has_stages:
            return
        status = reported["status"]
        if status != node.get("status"):
            await nodes.shared.update(node | {"status": status}, subresource="status")
        wait = seconds_to_report(status["conditions"], self.clock.now())
        self.queue.add_after(ObjectKey("", name_of(node)), wait, is_regular=True)

    def _reported(self, node: Tree) -> Tree:
        """Return a node with a network and the status that its kubelet reports."""
        with_network = node | {"spec": node_spec(node, lambda: self._networks.take(name_of(node)))}
        return with_network | {"status": node_status(with_network, self._version, self.clock.now())}

    async def _make(self, node: Tree) -> None:
        """Register a node, as its kubelet does, unless it exists. One that the server refuses is
        reported in the log."""
        try:
            await create_missing(self.context.resource("v1", "nodes"), self._reported(node))
        except StatusError as error:
            if error.reason not in ("Invalid", "BadRequest"):
                raise
            _log.warning("the node %s is not simulated: %s", name_of(node), error)


def number_of_nodes(settings: SimulationSettings) -> int:
    """Return the number of nodes to make besides those of a file: one if nothing is said."""
    if settings.simulate_nodes is not None:
        return settings.simulate_nodes
    return 1 if settings.simulate_nodes_from is None else 0
