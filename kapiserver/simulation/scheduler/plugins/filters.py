"""The filters, in the order of kube-scheduler: the first one that rejects a node gives the reason.

A filter looks at a pod and the snapshot once, and returns the check of a single node, or None if it
has nothing to do with the pod.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from kapiserver.simulation.scheduler.plugins.dynamic_resources import device_filter
from kapiserver.simulation.scheduler.plugins.inter_pod_affinity import pod_affinity_filter
from kapiserver.simulation.scheduler.plugins.node_affinity import (
    node_affinity_filter,
    node_name_filter,
)
from kapiserver.simulation.scheduler.plugins.node_ports import port_filter
from kapiserver.simulation.scheduler.plugins.node_resources import fit_filter
from kapiserver.simulation.scheduler.plugins.pod_topology_spread import spread_filter
from kapiserver.simulation.scheduler.plugins.rejection import Check, Rejection
from kapiserver.simulation.scheduler.plugins.taint_toleration import (
    taint_filter,
    unschedulable_filter,
)
from kapiserver.simulation.scheduler.plugins.volume_binding import volume_filter
from kapiserver.simulation.scheduler.plugins.volume_limits import volume_limit_filter
from kapiserver.simulation.scheduler.plugins.volume_restrictions import exclusive_claim_filter
from kapiserver.simulation.scheduler.plugins.volume_zone import zone_filter
from kapiserver.simulation.scheduler.pod_info import PodInfo
from kapiserver.simulation.scheduler.snapshot import NodeInfo, Snapshot

_Filter: TypeAlias = Callable[[PodInfo, Snapshot], Check | None]

_FILTERS: tuple[_Filter, ...] = (
    node_name_filter,
    unschedulable_filter,
    taint_filter,
    node_affinity_filter,
    port_filter,
    fit_filter,
    exclusive_claim_filter,
    volume_limit_filter,
    volume_filter,
    zone_filter,
    spread_filter,
    pod_affinity_filter,
    device_filter,
)


def checks_for(pod: PodInfo, snapshot: Snapshot) -> Sequence[Check]:
    """Return the checks that a node must pass for a pod."""
    return [check for make_check in _FILTERS if (check := make_check(pod, snapshot)) is not None]


def rejection_of(node: NodeInfo, checks: Sequence[Check]) -> Rejection | None:
    """Return why a node is rejected, or None if it passes all checks."""
    for check in checks:
        rejection = check(node)
        if rejection is not None:
            return rejection
    return None


def rejection_with_nominated(
    pod: PodInfo, snapshot: Snapshot, node: NodeInfo, checks: Sequence[Check]
) -> Rejection | None:
    """Return why a node is rejected: as it is, or together with pods of the same or a higher
    priority that wait for their victims there. Only both ways count, because these pods may come or
    not."""
    rejection = rejection_of(node, checks)
    if rejection is not None or not snapshot.nominated:
        return rejection
    expected = [
        other
        for other in snapshot.nominated.values()
        if other.node_name == node.name and other.priority >= pod.priority and other.uid != pod.uid
    ]
    if not expected:
        return None
    for other in expected:
        snapshot.add_pod(other)
    rejection = rejection_of(node, checks_for(pod, snapshot))
    for other in expected:
        snapshot.remove_pod(other.uid)
    return rejection


def fits(pod: PodInfo, snapshot: Snapshot, node: NodeInfo) -> bool:
    """Report whether the pod can run on a node."""
    return rejection_with_nominated(pod, snapshot, node, checks_for(pod, snapshot)) is None
