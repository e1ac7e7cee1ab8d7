"""The addresses of simulated pods, each from the network of its node."""

from __future__ import annotations

from ipaddress import IPv4Network, ip_address, ip_network

from kapiserver.api.accessors import uid_of, value_at
from kapiserver.api.types import Tree
from kapiserver.controllers.workloads.pods import is_finished


class AddressPool:
    """The addresses that pods have, by the network of a node. Addresses are given in turn, so that
    one that a pod has left is not given to the next pod at once."""

    def __init__(self) -> None:
        self._taken: dict[str, str] = {}
        """The address of each pod, by uid."""
        self._in_use: set[str] = set()
        self._last: dict[str, int] = {}
        """The offset of the address that was given last, by network."""

    def keep(self, uid: str, address: str) -> None:
        """Remember the address that a pod has."""
        self._taken[uid] = address
        self._in_use.add(address)

    def take(self, uid: str, network: str) -> str:
        """Return the address of a pod, a free one if it has none; "" if all are in use, or the
        network is not one of IPv4."""
        if uid in self._taken:
            return self._taken[uid]
        try:
            parsed = IPv4Network(network)
        except ValueError:
            return ""
        count = parsed.num_addresses - 3  # without those of the network, its gateway, broadcasts
        for step in range(1, count + 1):
            offset = (self._last.get(network, -1) + step) % count
            address = str(parsed.network_address + 2 + offset)
            if address not in self._in_use:
                self._last[network] = offset
                self.keep(uid, address)
                return address
        return ""

    def take_all(self, uid: str, node: Tree) -> list[str]:
        """Return the addresses of a pod, one in each network of its node."""
        networks = value_at(node, "spec", "podCIDRs") or [value_at(node, "spec", "podCIDR") or ""]
        first = self.take(uid, networks[0])
        others = [same_host(first, networks[0], network) for network in networks[1:]]
        return [address for address in (first, *others) if address]

    def note(self, pod: Tree, *, is_gone: bool) -> None:
        """Keep the address of a pod, or release it when the pod does not run any more."""
        address = value_at(pod, "status", "podIP")
        if is_gone or is_finished(pod):
            self.release(uid_of(pod))
        elif address and not value_at(pod, "spec", "hostNetwork"):
            self.keep(uid_of(pod), address)

    def release(self, uid: str) -> None:
        """Forget the address of a pod that does not run any more. Idempotent."""
        self._in_use.discard(self._taken.pop(uid, ""))


def same_host(address: str, network: str, other: str) -> str:
    """Return the address in another network with the number that an address has in its own: that of
    a pod in the other family. Return "" if there is none."""
    try:
        own, new = ip_network(network), ip_network(other)
        return str(new[int(ip_address(address)) - int(own.network_address)])
    except (ValueError, IndexError):
        return ""
