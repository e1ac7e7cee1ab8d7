"""Volumes: claims must exist, and a bound volume must be reachable from the node.

Claims that are not bound yet keep no pod from a node: who binds them decides nothing here. Mirrors
the plugin volumebinding of pkg/scheduler/framework/plugins.
"""

from __future__ import annotations

from kapiserver.api.accessors import is_terminating, value_at
from kapiserver.api.core.node_affinity import term_matches
from kapiserver.simulation.scheduler.plugins.rejection import Check, Rejection
from kapiserver.simulation.scheduler.pod_info import PodInfo
from kapiserver.simulation.scheduler.snapshot import NodeInfo, Snapshot

_NO_VOLUME = Rejection(
    ("node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",),
    resolvable=False,
)
_UNREACHABLE = Rejection(
    ("node(s) didn't match PersistentVolume's node affinity",), resolvable=False
)


def claim_problem(pod: PodInfo, snapshot: Snapshot) -> str:
    """Return why no node can take the pod as long as its claims are as they are, or ""."""
    for name in pod.claims:
        claim = snapshot.claims.get((pod.namespace, name))
        if claim is None:
            return f'persistentvolumeclaim "{name}" not found'
        if is_terminating(claim):
            return f'persistentvolumeclaim "{name}" is being deleted'
    return ""


def volume_filter(pod: PodInfo, snapshot: Snapshot) -> Check | None:
    """Reject nodes that the volumes of bound claims exclude (VolumeBinding)."""
    claims = [snapshot.claims.get((pod.namespace, name)) or {} for name in pod.claims]
    names = [name for claim in claims if (name := value_at(claim, "spec", "volumeName"))]
    volumes = [snapshot.volumes.get(name) for name in names]
    if not volumes:
        return None

    def check(node: NodeInfo) -> Rejection | None:
        for volume in volumes:
            if volume is None:
                return _NO_VOLUME
            required = value_at(volume, "spec", "nodeAffinity", "required")
            if required and not any(
                term_matches(term, node) for term in required.get("nodeSelectorTerms") or ()
            ):
                return _UNREACHABLE
        return None

    return check
