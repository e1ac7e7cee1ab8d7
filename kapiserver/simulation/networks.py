"""The networks of pods: each node has one of 256 addresses.

They are what kube-controller-manager's node-ipam-controller gives nodes as `spec.podCIDR`.
"""

from __future__ import annotations

from ipaddress import IPv4Network

from kapiserver.api.accessors import value_at
from kapiserver.api.types import Tree

MAX_NODES = 16384
"""The number of networks, and so of nodes whose pods have addresses."""

_POD_NETWORK = IPv4Network("10.128.0.0/9")
"""The addresses of all pods."""
_BITS = 24


def pod_network(index: int) -> IPv4Network:
    """Return a network by its number, which is below MAX_NODES."""
    return IPv4Network((_POD_NETWORK.network_address + (index << (32 - _BITS)), _BITS))


def network_index(node: Tree) -> int | None:
    """Return the number of the network that a node has; None if it has none of them."""
    try:
        network = IPv4Network(value_at(node, "spec", "podCIDR") or "")
    except ValueError:
        return None
    if network.prefixlen != _BITS or not network.subnet_of(_POD_NETWORK):
        return None
    index = (int(network.network_address) - int(_POD_NETWORK.network_address)) >> (32 - _BITS)
    return index if index < MAX_NODES else None


class NetworkPool:
    """The numbers of the networks that nodes have. Numbers are given in turn: each search begins
    where the last one ended, so that the search stays short.

    first   the lowest number that may be given
    """

    def __init__(self, first: int) -> None:
        self._first = first
        self._next = first
        self._owners: dict[int, str] = {}
        self._numbers: dict[str, int] = {}

    def keep(self, node: str, index: int) -> None:
        """Note the number that a node has."""
        self.release(node)
        self._owners.setdefault(index, node)
        self._numbers[node] = index

    def take(self, node: str) -> int | None:
        """Return the number of a node, a free one if it has none; None if all are in use."""
        if node in self._numbers:
            return self._numbers[node]
        span = MAX_NODES - self._first
        for step in range(span):
            index = self._first + (self._next - self._first + step) % span
            if index not in self._owners:
                self._next = index + 1
                self.keep(node, index)
                return index
        return None

    def release(self, node: str) -> None:
        """Forget the number of a node. Idempotent."""
        index = self._numbers.pop(node, None)
        if index is not None and self._owners.get(index) == node:
            del self._owners[index]
