"""Plans what the binder does about one claim: the new claim and volume, and an event.

    claim                           outcome
    without a volume                the best volume is bound; or it waits for a consumer; or for a
                                    provisioner
    names a volume                  that one is bound if it is free and fits, or is reserved for it
    has been bound                  bound again if its volume has lost the reference; Lost if the
                                    volume is gone, or belongs to another claim

A binding consists of two references, from the volume to the claim and back. The volume is written
first. When the binder stops in between, the next reconcile finds a volume that is reserved for the
claim, and completes the binding. Mirrors syncClaim of pkg/controller/volume/persistentvolume.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from kapiserver.api.accessors import (
    annotations_of,
    metadata_of,
    name_of,
    namespace_of,
    resource_version_of,
    uid_of,
    value_at,
)
from kapiserver.api.types import Tree
from kapiserver.controllers.volumes.annotations import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    STORAGE_PROVISIONERS,
)
from kapiserver.controllers.volumes.matching import (
    best_volume,
    class_of,
    has_class,
    is_reserved_for,
    mismatch,
)
from kapiserver.controllers.workloads.planned_event import PlannedEvent

IN_TREE_PREFIX = "kubernetes.io/"
_CSI_DRIVERS: Mapping[str, str] = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/azure-file": "file.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
    "kubernetes.io/vsphere-volume": "csi.vsphere.vmware.com",
}
"""The CSI drivers that have taken the place of provisioners in Kubernetes itself."""


class ClaimState(Struct, frozen=True, kw_only=True):
    """What is known about a claim.

    volume          the volume that the claim names; None if it names none, or it does not exist
    candidates      the free volumes of its class, and those that are reserved for it
    storage_class   its StorageClass; None if it has none, or it does not exist
    default_class   the name of the default StorageClass, or ""
    waiting_pods    the names of the pods without a node that use it
    """

    claim: Tree
    volume: Tree | None = None
    candidates: Sequence[Tree] = ()
    storage_class: Tree | None = None
    default_class: str = ""
    waiting_pods: Sequence[str] = ()


class ClaimPlan(Struct, frozen=True):
    """The claim as it should be; the volume as it should be before, or None; an event about the
    claim, or None."""

    claim: Tree
    volume: Tree | None = None
    event: PlannedEvent | None = None


def plan_claim(state: ClaimState) -> ClaimPlan:
    """Return what to do about a claim."""
    if BIND_COMPLETED in annotations_of(state.claim):
        return _plan_bound(state)
    if value_at(state.claim, "spec", "volumeName"):
        return _plan_reserving(state)
    return _plan_unbound(state)


# A claim that has been bound.


def _plan_bound(state: ClaimState) -> ClaimPlan:
    if not value_at(state.claim, "spec", "volumeName"):
        message = "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!"
        return _lost(state, "ClaimLost", message)
    if state.volume is None:
        message = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
        return _lost(state, "ClaimLost", message)
    reference = value_at(state.volume, "spec", "claimRef")
    if reference and reference.get("uid") != uid_of(state.claim):
        message = "Two claims are bound to the same volume, this one is bound incorrectly"
        return _lost(state, "ClaimMisbound", message)
    return _bind(state.claim, state.volume)


def _lost(state: ClaimState, reason: str, message: str) -> ClaimPlan:
    if value_at(state.claim, "status", "phase") == "Lost":
        return ClaimPlan(state.claim)
    event = PlannedEvent(reason, message, "Warning")
    return ClaimPlan(_without_volume(state.claim, "Lost"), event=event)


# A claim that names a volume.


def _plan_reserving(state: ClaimState) -> ClaimPlan:
    claim, volume = state.claim, state.volume
    if volume is None:
        return ClaimPlan(_without_volume(claim, "Pending"))
    if is_reserved_for(volume, claim):
        return _bind(claim, volume)
    if value_at(volume, "spec", "claimRef"):
        message = f'volume "{name_of(volume)}" already bound to a different claim.'
        return _pending(claim, "FailedBinding", message, "Warning")
    problem = mismatch(volume, claim)
    if problem:
        message = f'Cannot bind to requested volume "{name_of(volume)}": {problem}'
        return _pending(claim, "VolumeMismatch", message, "Warning")
    return _bind(claim, volume)


# A claim for any volume.


def _plan_unbound(state: ClaimState) -> ClaimPlan:
    claim = state.claim
    delayed = (state.storage_class or {}).get("volumeBindingMode") == "WaitForFirstConsumer"
    volume = best_volume(claim, state.candidates, delayed=delayed)
    if volume is not None:
        return _bind(claim, volume)
    if not has_class(claim) and state.default_class:
        return ClaimPlan(
            claim | {"spec": claim["spec"] | {"storageClassName": state.default_class}}
        )
    if delayed and SELECTED_NODE not in annotations_of(claim):
        return _waiting_for_consumer(claim, state.waiting_pods)
    if class_of(claim):
        return _provision(claim, state.storage_class)
    message = "no persistent volumes available for this claim and no storage class is set"
    return _pending(claim, "FailedBinding", message)


def _waiting_for_consumer(claim: Tree, pods: Sequence[str]) -> ClaimPlan:
    if not pods:
        message = "waiting for first consumer to be created before binding"
        return _pending(claim, "WaitForFirstConsumer", message)
    noun = "pod" if len(pods) == 1 else "pods"
    message = f"waiting for {noun} {','.join(pods)} to be scheduled"
    return _pending(claim, "WaitForPodScheduled", message)


def _provision(claim: Tree, storage_class: Tree | None) -> ClaimPlan:
    """Return the plan to ask the provisioner of a class for a volume."""
    if storage_class is None:
        message = f'storageclass.storage.k8s.io "{class_of(claim)}" not found'
        return ClaimPlan(claim, event=PlannedEvent("ProvisioningFailed", message, "Warning"))
    name = storage_class.get("provisioner") or ""
    provisioner = _CSI_DRIVERS.get(name, name)
    if provisioner.startswith(IN_TREE_PREFIX):
        message = f"no volume plugin matched name: {provisioner}"
        return ClaimPlan(claim, event=PlannedEvent("ProvisioningFailed", message, "Warning"))
    message = (
        f"Waiting for a volume to be created either by the external provisioner '{provisioner}' or "
        "manually by the system administrator. If volume creation is delayed, please verify that "
        "the provisioner is running and correctly registered."
    )
    asking = with_annotations(claim, dict.fromkeys(STORAGE_PROVISIONERS, provisioner))
    return ClaimPlan(asking, event=PlannedEvent("ExternalProvisioning", message))


# Claims and volumes as they should be.


def _pending(claim: Tree, reason: str, message: str, type_: str = "Normal") -> ClaimPlan:
    event = PlannedEvent(reason, message, type_)
    return ClaimPlan(_without_volume(claim, "Pending"), event=event)


def _without_volume(claim: Tree, phase: str) -> Tree:
    """Return a claim with a phase and nothing else that a volume has given it."""
    of_volume = ("accessModes", "capacity", "currentVolumeAttributesClassName")
    status = {
        name: value for name, value in (claim.get("status") or {}).items() if name not in of_volume
    }
    return claim | {"status": status | {"phase": phase}}


def _bind(claim: Tree, volume: Tree) -> ClaimPlan:
    return ClaimPlan(_bound_claim(claim, volume), bound_volume(volume, claim))


def reserved_volume(volume: Tree, claim: Tree) -> Tree:
    """Return a volume that refers to a claim. The scheduler reserves volumes so, too."""
    reference = value_at(volume, "spec", "claimRef") or {}
    if is_reserved_for(volume, claim) and reference.get("uid"):
        return volume
    reserved = volume if is_reserved_for(volume, claim) else _marked(volume)
    return reserved | {"spec": volume["spec"] | {"claimRef": reference_to(claim)}}


def bound_volume(volume: Tree, claim: Tree) -> Tree:
    """Return a volume that is bound to a claim."""
    return in_phase(reserved_volume(volume, claim), "Bound")


def reference_to(claim: Tree) -> Tree:
    """Return the reference of a volume to its claim."""
    return {
        "kind": "PersistentVolumeClaim",
        "namespace": namespace_of(claim),
        "name": name_of(claim),
        "uid": uid_of(claim),
        "apiVersion": "v1",
        "resourceVersion": resource_version_of(claim),
    }


def in_phase(volume: Tree, phase: str, message: str = "") -> Tree:
    """Return a volume in a phase. One that is in it already keeps its message."""
    status = volume.get("status") or {}
    if status.get("phase") == phase:
        return volume
    status = {name: value for name, value in status.items() if name != "message"}
    return volume | {
        "status": status | {"phase": phase} | ({"message": message} if message else {})
    }


def _bound_claim(claim: Tree, volume: Tree) -> Tree:
    """Return a claim that is bound to a volume."""
    if value_at(claim, "spec", "volumeName") != name_of(volume):
        claim = _marked(claim) | {"spec": claim["spec"] | {"volumeName": name_of(volume)}}
    status = dict(claim.get("status") or {})
    status["accessModes"] = value_at(volume, "spec", "accessModes")
    if status.get("phase") != "Bound":  # later, an expansion decides about them
        status["capacity"] = value_at(volume, "spec", "capacity")
        attributes_class = value_at(volume, "spec", "volumeAttributesClassName")
        if attributes_class:
            status["currentVolumeAttributesClassName"] = attributes_class
    claim = with_annotations(claim, {BIND_COMPLETED: "yes"}, keep=True)
    return claim | {"status": status | {"phase": "Bound"}}


def _marked(obj: Tree) -> Tree:
    return with_annotations(obj, {BOUND_BY_CONTROLLER: "yes"}, keep=True)


def with_annotations(obj: Tree, annotations: Mapping[str, str], *, keep: bool = False) -> Tree:
    """Return an object with annotations; with `keep`, those that are present keep their values."""
    present = annotations_of(obj)
    merged = {**annotations, **present} if keep else {**present, **annotations}
    if merged == present:
        return obj
    return obj | {"metadata": metadata_of(obj) | {"annotations": merged}}
