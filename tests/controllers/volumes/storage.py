"""Claims, volumes and classes for the tests of volumes."""

from __future__ import annotations

BOUND = {"pv.kubernetes.io/bind-completed": "yes"}
BY_CONTROLLER = {"pv.kubernetes.io/bound-by-controller": "yes"}


def a_claim(name="data", size="1Gi", *, class_="", phase="Pending", annotations=None, **spec):
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": size}},
        "volumeMode": "Filesystem",
    } | spec
    if class_ is not None:
        spec["storageClassName"] = class_
    metadata = {"name": name, "namespace": "shop", "uid": f"uid-{name}"}
    if annotations:
        metadata["annotations"] = annotations
    return {
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": spec,
        "status": {"phase": phase},
    }


def a_bound_claim(volume, phase="Bound", **fields):
    """A claim that the binder has bound to a volume."""
    fields.setdefault("annotations", BOUND | BY_CONTROLLER)
    claim = a_claim(phase=phase, volumeName=volume, **fields)
    if phase == "Bound":
        claim["status"] |= {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}
    return claim


def a_volume(
    name="disk", size="1Gi", *, class_="", phase="Available", annotations=None, labels=None, **spec
):
    source = {} if {"csi", "nfs", "fc"} & spec.keys() else {"hostPath": {"path": "/tmp/disk"}}
    metadata = {"name": name, "uid": f"uid-{name}"}
    for field, values in (("annotations", annotations), ("labels", labels)):
        if values:
            metadata[field] = values
    return {
        "kind": "PersistentVolume",
        "metadata": metadata,
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": size},
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": class_,
            "volumeMode": "Filesystem",
        }
        | source
        | spec,
        "status": {"phase": phase},
    }


def reference(name="data", uid="uid-data"):
    """The reference of a volume to a claim; uid=None: a user wrote it."""
    return {"namespace": "shop", "name": name} | ({"uid": uid} if uid else {})


def a_class(name="fast", provisioner="example.com/disk", **fields):
    return {
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "Immediate",
    } | fields
