"""The ports of the host that pods take."""

from __future__ import annotations

from typing import NamedTuple

from kapiserver.api.types import Tree

_ALL_ADDRESSES = "0.0.0.0"


class HostPort(NamedTuple):
    """A port of the host."""

    address: str
    protocol: str
    port: int

    def conflicts_with(self, other: HostPort) -> bool:
        """Report whether both cannot be taken on one node."""
        if self.protocol != other.protocol or self.port != other.port:
            return False
        return self.address == other.address or _ALL_ADDRESSES in (self.address, other.address)


def host_ports_of(spec: Tree) -> list[HostPort]:
    """Return the ports of the host that the containers and sidecars of a pod take."""
    sidecars = [
        container
        for container in spec.get("initContainers") or ()
        if container.get("restartPolicy") == "Always"
    ]
    return [
        HostPort(
            port.get("hostIP") or _ALL_ADDRESSES, port.get("protocol") or "TCP", port["hostPort"]
        )
        for container in (*(spec.get("containers") or ()), *sidecars)
        for port in container.get("ports") or ()
        if port.get("hostPort")
    ]
