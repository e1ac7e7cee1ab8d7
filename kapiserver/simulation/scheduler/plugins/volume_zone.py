"""Zones of volumes: a node with labels of its zone takes only pods whose volumes are there.

Mirrors the plugin volumezone of pkg/scheduler/framework/plugins.
"""

from __future__ import annotations

from collections.abc import Mapping

from kapiserver.api.accessors import labels_of, value_at
from kapiserver.simulation.scheduler.plugins.rejection import Check, Rejection
from kapiserver.simulation.scheduler.pod_info import PodInfo
from kapiserver.simulation.scheduler.snapshot import NodeInfo, Snapshot

_NO_ZONE = Rejection(("node(s) had no available volume zone",), resolvable=False)
_NEW_NAMES: Mapping[str, str] = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
_LABELS = frozenset((*_NEW_NAMES, *_NEW_NAMES.values()))
_DELIMITER = "__"
"""Stands between the zones of a volume that is in several."""


def zone_filter(pod: PodInfo, snapshot: Snapshot) -> Check | None:
    """Reject nodes in other zones than the bound volumes of a pod (VolumeZone)."""
    claims = (snapshot.claims.get((pod.namespace, name)) or {} for name in pod.claims)
    names = (value_at(claim, "spec", "volumeName") or "" for claim in claims)
    zones = [
        (label, set(text.split(_DELIMITER)))
        for name in names
        for label, text in labels_of(snapshot.volumes.get(name) or {}).items()
        if label in _LABELS
    ]
    if not zones:
        return None

    def check(node: NodeInfo) -> Rejection | None:
        if _LABELS.isdisjoint(node.labels):
            return None
        for label, values in zones:
            name = label if label in node.labels else _NEW_NAMES.get(label, label)
            if node.labels.get(name) not in values:
                return _NO_ZONE
        return None

    return check
