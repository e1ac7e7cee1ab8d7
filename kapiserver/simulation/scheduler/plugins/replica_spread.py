"""How the replicas of an owner without topology spread constraints spread over nodes and zones.

kube-scheduler has default constraints for that (PodTopologySpread, system defaulting), whose pods
are those that the selectors of Services and owners name. Here they are the pods with the same
owner, which the snapshot counts, so that no selector is evaluated for each pod of the cluster.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from kapiserver.simulation.scheduler.plugins.normalize import inverted
from kapiserver.simulation.scheduler.pod_info import PodInfo
from kapiserver.simulation.scheduler.snapshot import NodeInfo, Snapshot

_ZONE = "topology.kubernetes.io/zone"
_HOST_SKEW, _ZONE_SKEW = 3, 5
"""Differences up to these count little."""


def replica_spread_scores(
    pod: PodInfo, snapshot: Snapshot, nodes: Sequence[NodeInfo]
) -> list[int] | None:
    """Return a higher score for a node with fewer replicas on it and in its zone."""
    replicas = snapshot.replicas(pod.owner)
    if not replicas or pod.spread_constraints:
        return None
    in_zone: Counter[str] = Counter()
    for name, count in replicas.items():
        node = snapshot.node(name)
        if node is not None and _ZONE in node.labels:
            in_zone[node.labels[_ZONE]] += count
    host_weight = math.log(len(nodes) + 2)
    zone_weight = math.log(len({node.labels.get(_ZONE) for node in nodes}) + 2)
    of_zone = {zone: count * zone_weight + _ZONE_SKEW - 1 for zone, count in in_zone.items()}

    def unevenness(node: NodeInfo) -> int:
        total = replicas.get(node.name, 0) * host_weight + _HOST_SKEW - 1
        zone = node.labels.get(_ZONE)
        if zone is not None:
            total += of_zone.get(zone, _ZONE_SKEW - 1)
        return round(total)

    return inverted({node.name: unevenness(node) for node in nodes}, nodes)
