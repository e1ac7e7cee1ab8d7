"""Ports of the host. Mirrors the plugin nodeports of pkg/scheduler."""

from __future__ import annotations

from kapiserver.simulation.scheduler.plugins.rejection import Check, Rejection
from kapiserver.simulation.scheduler.pod_info import PodInfo
from kapiserver.simulation.scheduler.snapshot import NodeInfo, Snapshot

_TAKEN = Rejection(("node(s) didn't have free ports for the requested pod ports",), resolvable=True)


def port_filter(pod: PodInfo, _snapshot: Snapshot) -> Check | None:
    """Reject nodes where another pod has the same port (NodePorts)."""
    host_ports = pod.host_ports
    if not host_ports:
        return None

    def check(node: NodeInfo) -> Rejection | None:
        used_ports = (port for other in node.pods.values() for port in other.host_ports)
        if any(port.conflicts_with(host_port) for port in used_ports for host_port in host_ports):
            return _TAKEN
        return None

    return check
