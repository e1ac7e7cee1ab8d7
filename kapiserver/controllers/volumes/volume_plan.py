"""Plans what the binder does about one volume: the new volume or its deletion, and events.

    volume refers to        phase       what happens
    nothing                 Available
    a claim without a uid   Available   the claim's reconcile binds it
    a claim that names it   Bound
    a claim that names none             the claim's reconcile binds it
    another volume's claim  Available   the reference is removed; if the volume was provisioned for
                                        the claim, it is Released instead
    a claim that is gone    Released    the reclaim policy: Retain leaves it, Delete deletes it if
                                        no provisioner does, Recycle makes it Available

Mirrors syncVolume and reclaimVolume of pkg/controller/volume/persistentvolume.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from kapiserver.api.accessors import annotations_of, metadata_of, name_of, uid_of, value_at
from kapiserver.api.types import Tree
from kapiserver.controllers.volumes.annotations import BOUND_BY_CONTROLLER, DYNAMICALLY_PROVISIONED
from kapiserver.controllers.volumes.claim_plan import IN_TREE_PREFIX, in_phase
from kapiserver.controllers.volumes.matching import volume_mode
from kapiserver.controllers.workloads.planned_event import PlannedEvent

_RECLAIMABLE = ("Released", "Failed")
_RECYCLABLE = ("hostPath", "nfs")
_DELETABLE_PATH = re.compile("/tmp/.+")


class VolumeState(Struct, frozen=True, kw_only=True):
    """What is known about a volume.

    claim   the claim of the namespace and name that the volume refers to, or None
    users   NAMESPACE/NAME of the unfinished pods that use a claim of that name
    """

    volume: Tree
    claim: Tree | None = None
    users: Sequence[str] = ()


class VolumePlan(Struct, frozen=True):
    """What to do about a volume.

    volume        the volume as it should be
    event         about the volume
    claim_event   about its claim
    is_deleted    whether to delete the volume
    binds_claim   whether the claim is to be reconciled, which binds both
    """

    volume: Tree
    event: PlannedEvent | None = None
    claim_event: PlannedEvent | None = None
    is_deleted: bool = False
    binds_claim: bool = False


def plan_volume(state: VolumeState) -> VolumePlan:
    """Return what to do about a volume."""
    volume, claim = state.volume, state.claim
    uid = value_at(volume, "spec", "claimRef", "uid")
    if not uid:
        return VolumePlan(in_phase(volume, "Available"))
    if claim is None or uid_of(claim) != uid:
        return _plan_released(state)
    named = value_at(claim, "spec", "volumeName")
    if named == name_of(volume):
        return VolumePlan(in_phase(volume, "Bound"))
    if not named:
        return _plan_binding(volume, claim)
    if DYNAMICALLY_PROVISIONED in annotations_of(volume) and _policy(volume) == "Delete":
        return _plan_released(state)
    return VolumePlan(unbound_volume(volume))


def _plan_binding(volume: Tree, claim: Tree) -> VolumePlan:
    if volume_mode(volume) == volume_mode(claim):
        return VolumePlan(volume, binds_claim=True)
    about_volume = (
        f'Cannot bind PersistentVolume to requested PersistentVolumeClaim "{name_of(claim)}" due '
        "to incompatible volumeMode."
    )
    about_claim = (
        f'Cannot bind PersistentVolume "{name_of(volume)}" to requested PersistentVolumeClaim due '
        "to incompatible volumeMode."
    )
    return VolumePlan(
        volume,
        event=PlannedEvent("VolumeMismatch", about_volume, "Warning"),
        claim_event=PlannedEvent("VolumeMismatch", about_claim, "Warning"),
    )


def unbound_volume(volume: Tree) -> Tree:
    """Return a volume without its claim. One that a user reserved stays reserved, for any claim of
    that name."""
    metadata, spec = dict(metadata_of(volume)), dict(volume["spec"])
    annotations = dict(annotations_of(volume))
    if annotations.pop(BOUND_BY_CONTROLLER, None) is None:
        spec["claimRef"] = {key: text for key, text in spec["claimRef"].items() if key != "uid"}
    else:
        del spec["claimRef"]
        del metadata["annotations"]
        metadata |= {"annotations": annotations} if annotations else {}
    return in_phase(volume | {"metadata": metadata, "spec": spec}, "Available")


# Volumes whose claim is gone.


def _plan_released(state: VolumeState) -> VolumePlan:
    volume, policy = state.volume, _policy(state.volume)
    if value_at(volume, "status", "phase") not in _RECLAIMABLE:
        return VolumePlan(in_phase(volume, "Released"))  # this change leads to the next reconcile
    if policy == "Delete":
        return _plan_deletion(volume)
    if policy == "Recycle":
        return _plan_recycling(state)
    return VolumePlan(volume)


def _plan_deletion(volume: Tree) -> VolumePlan:
    provisioner = annotations_of(volume).get(DYNAMICALLY_PROVISIONED) or ""
    spec = volume["spec"]
    if (provisioner and not provisioner.startswith(IN_TREE_PREFIX)) or spec.get("csi"):
        return VolumePlan(volume)  # its provisioner deletes it
    path = value_at(spec, "hostPath", "path")
    if path is None:
        problem = (
            f'error getting deleter volume plugin for volume "{name_of(volume)}": no deletable '
            "volume plugin matched"
        )
        return _failed(volume, "VolumeFailedDelete", problem)
    if not _DELETABLE_PATH.match(path):
        problem = f"host_path deleter only supports /tmp/.+ but received provided {path}"
        return _failed(volume, "VolumeFailedDelete", problem)
    return VolumePlan(volume, is_deleted=True)


def _plan_recycling(state: VolumeState) -> VolumePlan:
    """Return the plan for a volume that is to be used again. No pod wipes it: there is no data."""
    volume = state.volume
    if state.users and state.claim is None:
        message = f"Volume is used by pods: {','.join(sorted(state.users))}"
        return VolumePlan(volume, PlannedEvent("VolumeFailedRecycle", message))
    if not any(volume["spec"].get(source) for source in _RECYCLABLE):
        problem = "No recycler plugin found for the volume!"
        return _failed(volume, "VolumeFailedRecycle", problem)
    return VolumePlan(unbound_volume(volume), PlannedEvent("VolumeRecycled", "Volume recycled"))


def _failed(volume: Tree, reason: str, problem: str) -> VolumePlan:
    if value_at(volume, "status", "phase") == "Failed":
        return VolumePlan(volume)
    return VolumePlan(in_phase(volume, "Failed", problem), PlannedEvent(reason, problem, "Warning"))


def _policy(volume: Tree) -> str:
    return value_at(volume, "spec", "persistentVolumeReclaimPolicy") or ""
