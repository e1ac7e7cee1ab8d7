"""Claims with the access mode ReadWriteOncePod, which one pod at a time may use.

Mirrors the plugin volumerestrictions of pkg/scheduler/framework/plugins, without its rules of disks
that a pod names itself.
"""

from __future__ import annotations

from kapiserver.api.accessors import value_at
from kapiserver.simulation.scheduler.plugins.rejection import Check, Rejection
from kapiserver.simulation.scheduler.pod_info import PodInfo
from kapiserver.simulation.scheduler.snapshot import Snapshot

_IN_USE = Rejection(
    (
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
        "already in-use by another pod",
    ),
    resolvable=True,
)


def exclusive_claim_filter(pod: PodInfo, snapshot: Snapshot) -> Check | None:
    """Reject all nodes while another pod uses a ReadWriteOncePod claim of the pod
    (VolumeRestrictions)."""
    for name in pod.claims:
        claim = snapshot.claims.get((pod.namespace, name)) or {}
        is_exclusive = "ReadWriteOncePod" in (value_at(claim, "spec", "accessModes") or ())
        if is_exclusive and snapshot.is_claim_used(pod.namespace, name):
            return lambda _node: _IN_USE
    return None
