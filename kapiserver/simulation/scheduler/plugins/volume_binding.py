"""Volumes: the claims of a pod must be bound, or be bindable on the node.

A claim whose class waits for its first consumer gets a volume when the pod has its node: a free one
that is reachable from there, or one that is provisioned there. All other claims must be bound
before. If a CSI driver says so, a CSIStorageCapacity object must show that a volume has room on the
node. Mirrors the plugin volumebinding of pkg/scheduler/framework/plugins, except for its score.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kapiserver.api.accessors import (
    annotations_of,
    is_terminating,
    name_of,
    value_at,
)
from kapiserver.api.label_selectors import selection_of
from kapiserver.api.types import Tree
from kapiserver.controllers.volumes.annotations import SELECTED_NODE
from kapiserver.controllers.volumes.ephemeral_volumes import check_owner, ephemeral_volumes
from kapiserver.controllers.volumes.matching import (
    class_of,
    is_bound,
    is_reachable,
    largest_volume,
    requested_size,
    smallest_volume,
)
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
_NOTHING_TO_BIND = Rejection(
    ("node(s) didn't find available persistent volumes to bind",), resolvable=False
)
_NO_SPACE = Rejection(("node(s) did not have enough free storage",), resolvable=False)
_NO_PROVISIONER = "kubernetes.io/no-provisioner"


class ClaimToBind(NamedTuple):
    """A claim of a pod that waits for its node; `volume` is None if one is to be provisioned."""

    claim: Tree
    volume: Tree | None = None


def claim_problem(pod: PodInfo, snapshot: Snapshot) -> str:
    """Return why no node can take the pod as long as its claims are as they are, or ""."""
    ephemeral = {f"{pod.name}-{volume['name']}" for volume in ephemeral_volumes(pod.pod)}
    for name in pod.claims:
        claim = snapshot.claims.get((pod.namespace, name))
        problem = _problem_of(name, claim, pod if name in ephemeral else None)
        if problem:
            return problem
    if any(not is_bound(claim) and not _waits(claim, snapshot) for claim in _claims(pod, snapshot)):
        return "pod has unbound immediate PersistentVolumeClaims"
    return ""


def _problem_of(name: str, claim: Tree | None, owner: PodInfo | None) -> str:
    """Return what is wrong with a claim; `owner` is the pod that it must belong to, or None."""
    if claim is None:
        if owner is not None:
            waiting = "waiting for ephemeral volume controller to create the persistentvolumeclaim"
            return f'{waiting} "{name}"'
        return f'persistentvolumeclaim "{name}" not found'
    if value_at(claim, "status", "phase") == "Lost":
        volume = value_at(claim, "spec", "volumeName") or ""
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"'
    if is_terminating(claim):
        return f'persistentvolumeclaim "{name}" is being deleted'
    try:
        if owner is not None:
            check_owner(owner.pod, claim)
    except ValueError as error:
        return str(error)
    return ""


def volume_filter(pod: PodInfo, snapshot: Snapshot) -> Check | None:
    """Reject nodes that the volumes of bound claims exclude, and those where the other claims get
    no volume (VolumeBinding)."""
    claims = _claims(pod, snapshot)
    if not claims:
        return None
    volumes = [_volume_of(claim, snapshot) for claim in claims if is_bound(claim)]
    unbound = [claim for claim in claims if not is_bound(claim)]

    def check(node: NodeInfo) -> Rejection | None:
        for volume in volumes:
            if volume is None:
                return _NO_VOLUME
            if not is_reachable(volume, node):
                return _UNREACHABLE
        choice = _choose(unbound, snapshot, node)
        return choice if isinstance(choice, Rejection) else None

    return check


def claims_to_bind(pod: PodInfo, snapshot: Snapshot, node: NodeInfo) -> Sequence[ClaimToBind]:
    """Return the claims that must be bound before a pod that fits on a node is bound to it."""
    unbound = [claim for claim in _claims(pod, snapshot) if not is_bound(claim)]
    choice = _choose(unbound, snapshot, node)
    return () if isinstance(choice, Rejection) else choice


def _claims(pod: PodInfo, snapshot: Snapshot) -> list[Tree]:
    claims = (snapshot.claims.get((pod.namespace, name)) for name in pod.claims)
    return [claim for claim in claims if claim is not None]


def _volume_of(claim: Tree, snapshot: Snapshot) -> Tree | None:
    return snapshot.volumes.get(value_at(claim, "spec", "volumeName") or "")


def _waits(claim: Tree, snapshot: Snapshot) -> bool:
    """Report whether the scheduler decides about the volume of a claim."""
    mode = snapshot.storage_classes.get(class_of(claim), {}).get("volumeBindingMode")
    return mode == "WaitForFirstConsumer" and not value_at(claim, "spec", "volumeName")


def _choose(
    claims: Sequence[Tree], snapshot: Snapshot, node: NodeInfo
) -> Sequence[ClaimToBind] | Rejection:
    """Return the volumes that claims get on a node, the smallest claims first, or why one gets
    none. A claim whose volume is being provisioned stays on the node of its volume."""
    choices: dict[str, Tree] = {}
    chosen = []
    for claim in sorted(claims, key=requested_size):
        selected = annotations_of(claim).get(SELECTED_NODE)
        if selected not in (None, node.name):
            return _NOTHING_TO_BIND
        volume = None
        if selected is None:
            candidates = snapshot.volumes_for(claim)
            volume = smallest_volume(claim, candidates, node=node, excluded=choices, delayed=True)
        if volume is not None:
            choices[name_of(volume)] = volume
        elif not _can_provision(snapshot.storage_classes.get(class_of(claim), {}), node):
            return _NOTHING_TO_BIND
        elif not _has_capacity(claim, snapshot, node):
            return _NO_SPACE
        chosen.append(ClaimToBind(claim, volume))
    return chosen


def _can_provision(storage_class: Tree, node: NodeInfo) -> bool:
    """Report whether a class has a provisioner, and allows volumes in the topology of a node."""
    if storage_class.get("provisioner", _NO_PROVISIONER) == _NO_PROVISIONER:
        return False
    terms = storage_class.get("allowedTopologies") or ()
    return not terms or any(_topology_matches(term, node.labels) for term in terms)


def _has_capacity(claim: Tree, snapshot: Snapshot, node: NodeInfo) -> bool:
    """Report whether a new volume has room on a node, if its driver publishes capacities."""
    provisioner = snapshot.storage_classes[class_of(claim)]["provisioner"]
    if not value_at(snapshot.csi_drivers.get(provisioner) or {}, "spec", "storageCapacity"):
        return True
    return any(
        capacity.get("storageClassName") == class_of(claim)
        and largest_volume(capacity) >= requested_size(claim)
        and _is_accessible(capacity, node)
        for capacity in snapshot.storage_capacities.values()
    )


def _is_accessible(capacity: Tree, node: NodeInfo) -> bool:
    selection = selection_of(capacity.get("nodeTopology"))
    return selection is not None and selection.matches(node.labels, {})


def _topology_matches(term: Tree, labels: Mapping[str, str]) -> bool:
    expressions = term.get("matchLabelExpressions") or ()
    return all(labels.get(expression["key"]) in expression["values"] for expression in expressions)
