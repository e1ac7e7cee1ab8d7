"""Decides to which nodes a volume is attached, and from which nodes it is detached.

    a pod on the node uses it   attached    what happens
    yes                         no          attached, unless another node has it and it is for one
                                            node only: an event of the pod says so
    no                          yes         detached when the node does not use it any more; at once
                                            from a node that is out of service, and six minutes
                                            later from one that is not ready

Only CSI volumes are attached, by VolumeAttachments. All functions are pure. Mirrors
pkg/controller/volume/attachdetach/reconciler and the attacher of pkg/volume/csi.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from msgspec import Struct

from kapiserver.api.accessors import (
    has_condition,
    is_terminating,
    name_of,
    value_at,
)
from kapiserver.api.types import Tree
from kapiserver.controllers.volumes.matching import access_modes
from kapiserver.controllers.workloads.planned_event import PlannedEvent
from kapiserver.controllers.workloads.pods import node_of

FORCE_SECONDS = 360.0
"""The time after which a volume is detached from a node that is not ready, though it uses it."""
_OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
_SHARED_MODES = frozenset(("ReadWriteMany", "ReadOnlyMany"))
_EXCLUSIVE = (
    "Volume is already exclusively attached to one node, waiting on detach before it can be "
    "attached to another node"
)


class AttachState(Struct, frozen=True, kw_only=True):
    """What is known about a volume.

    pods         the unfinished pods with a node that use it
    attachments  its VolumeAttachments
    nodes        the nodes of both, by name; those that do not exist are missing
    unneeded     since when no pod needs an attachment, by its name
    """

    volume: Tree
    pods: Sequence[Tree] = ()
    attachments: Sequence[Tree] = ()
    nodes: Mapping[str, Tree] = {}
    unneeded: Mapping[str, float] = {}


class AttachPlan(Struct, frozen=True):
    """What to do about a volume.

    attach  the nodes to attach it to
    detach  the names of the VolumeAttachments to delete
    events  about pods that have to wait: pod and event
    wait    the seconds until a detachment is forced; None: never
    """

    attach: Sequence[str] = ()
    detach: Sequence[str] = ()
    events: Sequence[tuple[Tree, PlannedEvent]] = ()
    wait: float | None = None


def needs_attachment(volume: Tree, driver: Tree | None) -> bool:
    """Report whether a volume must be attached; `driver` is its CSIDriver, or None."""
    required = value_at(driver or {}, "spec", "attachRequired")
    return value_at(volume, "spec", "csi") is not None and required is not False


def unique_name(volume: Tree) -> str:
    """Return the name of a CSI volume in the status of nodes."""
    csi = volume["spec"]["csi"]
    return f"kubernetes.io/csi/{csi.get('driver')}^{csi.get('volumeHandle')}"


def attachment_of(volume: Tree, node: str) -> Tree:
    """Return the VolumeAttachment of a volume and a node."""
    csi = volume["spec"]["csi"]
    driver, handle = csi.get("driver") or "", csi.get("volumeHandle") or ""
    digest = hashlib.sha256(f"{handle}{driver}{node}".encode()).hexdigest()
    source = {"persistentVolumeName": name_of(volume)}
    return {
        "metadata": {"name": f"csi-{digest}"},
        "spec": {"attacher": driver, "nodeName": node, "source": source},
    }


def plan_attachments(state: AttachState, now: float) -> AttachPlan:
    """Return what to do about a volume."""
    nodes = dict.fromkeys(node_of(pod) for pod in state.pods if node_of(pod) in state.nodes)
    held = {node_of_attachment(attachment): attachment for attachment in state.attachments}
    detach, waits = _detachments(state, nodes, now)
    blocking = [
        node
        for node, attachment in held.items()
        if name_of(attachment) not in detach and node not in nodes
    ]
    attach: list[str] = []
    events: list[tuple[Tree, PlannedEvent]] = []
    for node in nodes:
        other_nodes = [node_name for node_name in (*held, *attach) if node_name != node]
        if node in held:
            continue
        if _is_shared(state.volume) or not other_nodes:
            attach.append(node)
        elif blocking or any(other_node in nodes for other_node in other_nodes):
            events += _exclusive_events(state, node, other_nodes)
    return AttachPlan(attach, detach, events, min(waits, default=None))


def node_of_attachment(attachment: Tree) -> str:
    """Return the name of the node of a VolumeAttachment."""
    return value_at(attachment, "spec", "nodeName") or ""


def _is_shared(volume: Tree) -> bool:
    modes = access_modes(volume)
    return not modes or not modes.isdisjoint(_SHARED_MODES)


def _detachments(
    state: AttachState, nodes: Mapping[str, None], now: float
) -> tuple[list[str], list[float]]:
    """Return the names of the attachments to delete, and the seconds until others are forced."""
    names, waits = [], []
    for attachment in state.attachments:
        node = node_of_attachment(attachment)
        if node in nodes or is_terminating(attachment):
            continue
        since = state.unneeded.get(name_of(attachment), now)
        seconds = _seconds_to_detach(state.volume, state.nodes.get(node), now - since)
        if seconds is not None and seconds <= 0:
            names.append(name_of(attachment))
        elif seconds is not None:
            waits.append(seconds)
    return names, waits


def _seconds_to_detach(volume: Tree, node: Tree | None, elapsed: float) -> float | None:
    """Return the seconds until a volume that nobody needs is detached; None: when the node says
    that it does not use it any more."""
    if node is None or unique_name(volume) not in (value_at(node, "status", "volumesInUse") or ()):
        return 0.0
    taints = value_at(node, "spec", "taints") or ()
    if any(taint.get("key") == _OUT_OF_SERVICE for taint in taints):
        return 0.0
    return None if has_condition(node, "Ready") else FORCE_SECONDS - elapsed


def _exclusive_events(
    state: AttachState, node: str, other_nodes: Sequence[str]
) -> list[tuple[Tree, PlannedEvent]]:
    """Return the events of the pods on a node that cannot have the volume, because others have
    it."""
    users = [name_of(pod) for pod in state.pods if node_of(pod) in other_nodes]
    why = f"Volume is already used by pod(s) {', '.join(users)}" if users else _EXCLUSIVE
    message = f'Waiting for detach for volume "{name_of(state.volume)}" {why}'
    event = PlannedEvent("FailedAttachVolume", message, "Warning")
    return [(pod, event) for pod in state.pods if node_of(pod) == node]


def attached_volumes(attachments: Sequence[Tree], volumes: Mapping[str, Tree]) -> list[Tree]:
    """Return `status.volumesAttached` of a node with VolumeAttachments; `volumes` are theirs, by
    name."""
    names = (
        value_at(attachment, "spec", "source", "persistentVolumeName")
        for attachment in attachments
        if value_at(attachment, "status", "attached") and not is_terminating(attachment)
    )
    unique = sorted(unique_name(volumes[name]) for name in names if name in volumes)
    return [{"name": name, "devicePath": ""} for name in unique]
