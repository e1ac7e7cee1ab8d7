"""The addresses that templates of Stages give to nodes and pods."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kapiserver.simulation.addresses import AddressPool
from kapiserver.simulation.node_objects import internal_addresses, node_status
from kapiserver.storage.cache.entry import Entry
from kapiserver.storage.objects.informer import ObjectChange


class SimulatedHosts:
    """The addresses of simulated nodes, and of pods in the networks of their nodes.

    find_node   returns a node by name
    """

    def __init__(self, find_node: Callable[[str], Entry | None]) -> None:
        self._find_node = find_node
        self._pool = AddressPool()

    def note(self, change: ObjectChange) -> None:
        """Keep the address of a pod that changed, or release it when the pod has ended."""
        self._pool.note(change.last.tree(), is_gone=change.new is None)

    def node_ips(self, node: str) -> Sequence[str]:
        """Return the addresses of a node: those of its status, or those that it gets."""
        entry = self._find_node(node)
        if entry is None:
            return ()
        return internal_addresses({"status": node_status(entry.tree(), "", 0.0)})

    def pod_ips(self, node: str, uid: str) -> Sequence[str]:
        """Return the addresses of a pod: those that it has, or free ones."""
        entry = self._find_node(node)
        return () if entry is None else self._pool.take_all(uid, entry.tree())
