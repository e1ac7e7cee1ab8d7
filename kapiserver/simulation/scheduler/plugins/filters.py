"""The filters, in the order of kube-scheduler: the first one that rejects a node gives the reason.

A filter looks at a pod and the snapshot once, and returns the check of a single node, or None if it
has nothing to do with the pod.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

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
    spread_filter,
    pod_affinity_filter,
)


def checks_for(pod: PodInfo, snapshot: Snapshot) -> Sequence[Check]:
    """Return the checks that a node must pass for a pod."""
    return [check for each in _FILTERS if (check := each(pod, snapshot)) is not None]


def rejection_of(node: NodeInfo, checks: Sequence[Check]) -> Rejection | None:
    """Return why a node is rejected, or None if it passes all checks."""
    for check in checks:
        rejection = check(node)
        if rejection is not None:
            return rejection
    return None
