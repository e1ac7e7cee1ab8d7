"""The objects of simulated storage: the class `standard`, and volumes as a provisioner makes them.

All functions are pure. Mirrors the external-provisioner of CSI.
"""

from __future__ import annotations

from collections.abc import Mapping

from kapiserver.api.accessors import annotations_of, labels_of, name_of, uid_of, value_at
from kapiserver.api.names import dns1123_subdomain
from kapiserver.api.types import Tree
from kapiserver.controllers.volumes.annotations import (
    DYNAMICALLY_PROVISIONED,
    SELECTED_NODE,
    STORAGE_PROVISIONERS,
)
from kapiserver.controllers.volumes.claim_plan import reference_to
from kapiserver.simulation.annotations import PREFIX

DRIVER = "csi.simulation.kapiserver.dev"
"""The provisioner of the class `standard`, and the CSI driver of volumes whose provisioner cannot
be the name of one."""
FINALIZER = "external-provisioner.volume.kubernetes.io/finalizer"
"""Keeps a volume until its provisioner has deleted the storage."""
ERROR = f"{PREFIX}provisioning-error"
"""The annotation of a claim, or of its class, that says why no volume can be made."""
_SIMULATED = f"{PREFIX}simulated"
_MAX_DRIVER_NAME = 63
TOPOLOGY = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")
"""The labels of nodes that say which volumes they reach."""

STANDARD_CLASS: Tree = {
    "metadata": {
        "name": "standard",
        "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
    },
    "provisioner": DRIVER,
    "reclaimPolicy": "Delete",
    "volumeBindingMode": "Immediate",
    "allowVolumeExpansion": True,
}
"""The default class, so that claims without a class get a volume."""


def is_simulated_class(storage_class: Tree) -> bool:
    """Report whether the provisioner of a class is simulated: every one is, unless an annotation of
    the class says otherwise."""
    return annotations_of(storage_class).get(_SIMULATED) != "false"


def driver_of(storage_class: Tree) -> str:
    """Return the name of the CSI driver of a class."""
    return _driver_name(storage_class.get("provisioner") or "")


def _driver_name(provisioner: str) -> str:
    is_driver = len(provisioner) <= _MAX_DRIVER_NAME and not dns1123_subdomain(provisioner)
    return provisioner if is_driver else DRIVER


def wants_volume(claim: Tree, storage_class: Tree | None) -> bool:
    """Report whether a claim asks a simulated provisioner for a volume."""
    if storage_class is None or not is_simulated_class(storage_class):
        return False
    annotations = annotations_of(claim)
    waits = storage_class.get("volumeBindingMode") == "WaitForFirstConsumer"
    return (
        not value_at(claim, "spec", "volumeName")
        and bool(annotations.get(STORAGE_PROVISIONERS[-1]))
        and (SELECTED_NODE in annotations or not waits)
    )


def provisioning_error(claim: Tree, storage_class: Tree) -> str:
    """Return why no volume can be made for a claim, or ""."""
    if value_at(claim, "spec", "selector") is not None:
        return "claim Selector is not supported"
    default = annotations_of(storage_class).get(ERROR) or ""
    return annotations_of(claim).get(ERROR, default)


def volume_name(claim: Tree) -> str:
    """Return the name of the volume that is made for a claim."""
    return f"pvc-{uid_of(claim)}"


def new_volume(claim: Tree, storage_class: Tree, node: Tree | None) -> Tree:
    """Return the volume for a claim, reserved for it.

    node  the node of the first consumer; None if the class does not wait for it
    """
    provisioner = annotations_of(claim)[STORAGE_PROVISIONERS[-1]]
    policy = storage_class.get("reclaimPolicy") or "Delete"
    name = volume_name(claim)
    metadata: Tree = {"name": name, "annotations": {DYNAMICALLY_PROVISIONED: provisioner}}
    if policy == "Delete":
        metadata["finalizers"] = [FINALIZER]
    spec = {
        "accessModes": value_at(claim, "spec", "accessModes"),
        "capacity": {"storage": value_at(claim, "spec", "resources", "requests", "storage")},
        "claimRef": reference_to(claim),
        "csi": {"driver": _driver_name(provisioner), "volumeHandle": name},
        "mountOptions": storage_class.get("mountOptions"),
        "nodeAffinity": _node_affinity(storage_class, node),
        "persistentVolumeReclaimPolicy": policy,
        "storageClassName": name_of(storage_class),
        "volumeAttributesClassName": value_at(claim, "spec", "volumeAttributesClassName"),
        "volumeMode": value_at(claim, "spec", "volumeMode"),
    }
    return {"metadata": metadata, "spec": {key: value for key, value in spec.items() if value}}


def _node_affinity(storage_class: Tree, node: Tree | None) -> Tree | None:
    """Return the nodes that reach a volume: those in the region and zone of the first consumer's
    node, or in the topologies that the class allows; None if all do."""
    if node is not None:
        labels = labels_of(node)
        terms = [_term({key: [labels[key]] for key in TOPOLOGY if key in labels})]
    else:
        terms = [
            _term(
                {
                    requirement["key"]: requirement["values"]
                    for requirement in term["matchLabelExpressions"]
                }
            )
            for term in storage_class.get("allowedTopologies") or ()
        ]
    terms = [term for term in terms if term["matchExpressions"]]
    return {"required": {"nodeSelectorTerms": terms}} if terms else None


def _term(values: Mapping[str, list[str]]) -> Tree:
    return {
        "matchExpressions": [
            {"key": key, "operator": "In", "values": values_of_key}
            for key, values_of_key in values.items()
        ]
    }


def is_released(volume: Tree, storage_class: Tree | None) -> bool:
    """Report whether the simulated provisioner that made a volume is to delete it."""
    return (
        DYNAMICALLY_PROVISIONED in annotations_of(volume)
        and (storage_class is None or is_simulated_class(storage_class))
        and value_at(volume, "status", "phase") == "Released"
        and value_at(volume, "spec", "persistentVolumeReclaimPolicy") == "Delete"
    )
