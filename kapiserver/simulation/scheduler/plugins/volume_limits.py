"""Limits of nodes: how many volumes of a CSI driver can be attached, by the CSINode.

Volumes count while a pod on the node uses them, and until they are detached. A CSIDriver may also
keep pods from nodes where it is not installed. Mirrors the plugin nodevolumelimits of
pkg/scheduler/framework/plugins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Set

from kapiserver.api.accessors import name_of, value_at
from kapiserver.controllers.volumes.matching import class_of
from kapiserver.simulation.scheduler.plugins.rejection import Check, Rejection
from kapiserver.simulation.scheduler.pod_info import PodInfo
from kapiserver.simulation.scheduler.snapshot import NodeInfo, Snapshot

_TOO_MANY = Rejection(("node(s) exceed max volume count",), resolvable=True)


def volume_limit_filter(pod: PodInfo, snapshot: Snapshot) -> Check | None:
    """Reject nodes that cannot attach more volumes (NodeVolumeLimits)."""
    volumes = _csi_volumes(pod, snapshot)
    if not volumes:
        return None
    required_drivers = sorted(
        {driver for driver, _ in volumes if _must_be_installed(driver, snapshot)}
    )

    def check(node: NodeInfo) -> Rejection | None:
        drivers = _drivers_of(node, snapshot)
        for driver in required_drivers:
            if driver not in drivers:
                return Rejection(
                    (f"{driver} CSI driver is not installed on the node",), resolvable=True
                )
        limits = {name: count for name, count in drivers.items() if count is not None}
        if not limits:
            return None
        attached = {
            csi_volume
            for other in node.pods.values()
            for csi_volume in _csi_volumes(other, snapshot)
        }
        attached |= _attached_volumes(node, snapshot)
        after = Counter(driver for driver, _ in attached | volumes)
        exceeded = {driver for driver, limit in limits.items() if after[driver] > limit}
        is_rejected = any(driver in exceeded for driver, _ in volumes - attached)
        return _TOO_MANY if is_rejected else None

    return check


def _must_be_installed(driver: str, snapshot: Snapshot) -> bool:
    csi_driver = snapshot.csi_drivers.get(driver) or {}
    return bool(value_at(csi_driver, "spec", "preventPodSchedulingIfMissing"))


def _drivers_of(node: NodeInfo, snapshot: Snapshot) -> Mapping[str, int | None]:
    """Return the drivers of a node, and how many volumes each can attach; None: no limit."""
    csi_node = snapshot.csi_nodes.get(node.name) or {}
    return {
        driver["name"]: value_at(driver, "allocatable", "count")
        for driver in value_at(csi_node, "spec", "drivers") or ()
    }


def _attached_volumes(node: NodeInfo, snapshot: Snapshot) -> Set[tuple[str, str]]:
    """Return driver and handle of the volumes that are attached to a node."""
    attached = set()
    for attachment in snapshot.attachments.values():
        if value_at(attachment, "spec", "nodeName") == node.name:
            name = value_at(attachment, "spec", "source", "persistentVolumeName") or ""
            handle = value_at(snapshot.volumes.get(name) or {}, "spec", "csi", "volumeHandle")
            if handle:
                attached.add((attachment["spec"]["attacher"], handle))
    return attached


def _csi_volumes(pod: PodInfo, snapshot: Snapshot) -> Set[tuple[str, str]]:
    """Return driver and handle of the CSI volumes of a pod. A claim without a volume counts for the
    provisioner of its class."""
    volumes = set()
    for name in pod.claims:
        claim = snapshot.claims.get((pod.namespace, name)) or {}
        volume = snapshot.volumes.get(value_at(claim, "spec", "volumeName") or "")
        if volume is not None:
            csi = value_at(volume, "spec", "csi")
            if csi:
                volumes.add((csi.get("driver") or "", csi.get("volumeHandle") or name_of(volume)))
        elif claim:
            storage_class = snapshot.storage_classes.get(class_of(claim)) or {}
            volumes.add((storage_class.get("provisioner") or "", f"{pod.namespace}/{name}"))
    return volumes
