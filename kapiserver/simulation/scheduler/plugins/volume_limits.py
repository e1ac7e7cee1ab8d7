"""Limits of nodes: how many volumes of a CSI driver can be attached, by the CSINode.

Mirrors the plugin nodevolumelimits of pkg/scheduler/framework/plugins. Volumes count while a pod on
the node uses them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Set

from kapiserver.api.accessors import name_of, value_at
from kapiserver.api.types import Tree
from kapiserver.controllers.volumes.matching import class_of
from kapiserver.simulation.scheduler.plugins.rejection import Check, Rejection
from kapiserver.simulation.scheduler.pod_info import PodInfo
from kapiserver.simulation.scheduler.snapshot import NodeInfo, Snapshot

_TOO_MANY = Rejection(("node(s) exceed max volume count",), resolvable=True)


def volume_limit_filter(pod: PodInfo, snapshot: Snapshot) -> Check | None:
    """Reject nodes that cannot attach more volumes (NodeVolumeLimits)."""
    if not snapshot.csi_nodes:
        return None
    wanted = _csi_volumes(pod, snapshot)
    if not wanted:
        return None

    def check(node: NodeInfo) -> Rejection | None:
        limits = _limits_of(snapshot.csi_nodes.get(node.name) or {})
        if not limits:
            return None
        attached = {each for other in node.pods.values() for each in _csi_volumes(other, snapshot)}
        after = Counter(driver for driver, _ in attached | wanted)
        exceeded = {driver for driver, limit in limits.items() if after[driver] > limit}
        is_rejected = any(driver in exceeded for driver, _ in wanted - attached)
        return _TOO_MANY if is_rejected else None

    return check


def _limits_of(csi_node: Tree) -> Mapping[str, int]:
    return {
        driver["name"]: count
        for driver in value_at(csi_node, "spec", "drivers") or ()
        if (count := value_at(driver, "allocatable", "count")) is not None
    }


def _csi_volumes(pod: PodInfo, snapshot: Snapshot) -> Set[tuple[str, str]]:
    """Return driver and handle of the CSI volumes of a pod. A claim without a volume counts for the
    provisioner of its class."""
    found = set()
    for name in pod.claims:
        claim = snapshot.claims.get((pod.namespace, name)) or {}
        volume = snapshot.volumes.get(value_at(claim, "spec", "volumeName") or "")
        if volume is not None:
            csi = value_at(volume, "spec", "csi")
            if csi:
                found.add((csi.get("driver") or "", csi.get("volumeHandle") or name_of(volume)))
        elif claim:
            storage_class = snapshot.storage_classes.get(class_of(claim)) or {}
            found.add((storage_class.get("provisioner") or "", f"{pod.namespace}/{name}"))
    return found
