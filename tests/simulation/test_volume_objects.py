"""The volumes of simulated provisioners."""

from __future__ import annotations

import pytest

from kapiserver.simulation.volumes.volume_objects import (
    DRIVER,
    FINALIZER,
    is_released,
    new_volume,
    provisioning_error,
    wants_volume,
)
from tests.controllers.volumes.storage import a_claim, a_class, a_volume

PROVISIONER = "volume.kubernetes.io/storage-provisioner"
SELECTED = "volume.kubernetes.io/selected-node"
ERROR = "simulation.kapiserver.dev/provisioning-error"
ZONE = "topology.kubernetes.io/zone"
WAIT = {"volumeBindingMode": "WaitForFirstConsumer"}
OPTED_OUT = {"metadata": {"name": "fast", "annotations": {
    "simulation.kapiserver.dev/simulated": "false",
}}}  # fmt: skip


BOTH = [[(ZONE, ["a", "b"])], [("rack", ["1"])]]


def asking(provisioner=DRIVER, **annotations):
    return a_claim(class_="fast", annotations={PROVISIONER: provisioner, **annotations})


@pytest.mark.parametrize(
    ("claim", "storage_class", "wants"),
    [
        (asking(), a_class(), True),
        (asking(), None, False),
        (asking(), a_class() | OPTED_OUT, False),
        (a_claim(class_="fast"), a_class(), False),
        (asking(), a_class(**WAIT), False),
        (asking(**{SELECTED: "one"}), a_class(**WAIT), True),
        (asking() | {"spec": {"volumeName": "disk"}}, a_class(), False),
    ],
)
def test_which_claims(claim, storage_class, wants):
    assert wants_volume(claim, storage_class) is wants


def test_errors():
    """The annotation of the claim counts before that of its class; a selector is an error."""
    failing = a_class(metadata={"name": "fast", "annotations": {ERROR: "no room"}})
    assert provisioning_error(asking(), a_class()) == ""
    assert provisioning_error(asking(), failing) == "no room"
    assert provisioning_error(asking(**{ERROR: ""}), failing) == ""
    assert provisioning_error(asking(**{ERROR: "no"}), a_class()) == "no"
    selecting = a_claim(selector={"matchLabels": {"a": "b"}})
    assert provisioning_error(selecting, a_class()) == "claim Selector is not supported"


def test_volume():
    volume = new_volume(asking("disk.example.com"), a_class(mountOptions=["ro"]), None)
    assert volume["metadata"] == {
        "name": "pvc-uid-data",
        "annotations": {"pv.kubernetes.io/provisioned-by": "disk.example.com"},
        "finalizers": [FINALIZER],
    }
    assert volume["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "claimRef": {
            "kind": "PersistentVolumeClaim", "namespace": "shop", "name": "data",
            "uid": "uid-data", "apiVersion": "v1", "resourceVersion": "",
        },
        "csi": {"driver": "disk.example.com", "volumeHandle": "pvc-uid-data"},
        "mountOptions": ["ro"],
        "persistentVolumeReclaimPolicy": "Delete",
        "storageClassName": "fast",
        "volumeMode": "Filesystem",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("provisioner", "driver"),
    [
        ("ebs.csi.aws.com", "ebs.csi.aws.com"),
        ("rancher.io/local-path", DRIVER),
        ("Disk", DRIVER),
        ("a..b", DRIVER),
        ("a" * 64, DRIVER),
    ],
)
def test_drivers(provisioner, driver):
    """A provisioner whose name no CSI driver may have uses the simulated one."""
    assert new_volume(asking(provisioner), a_class(), None)["spec"]["csi"]["driver"] == driver


def test_retained_volume():
    volume = new_volume(asking(), a_class(reclaimPolicy="Retain"), None)
    assert "finalizers" not in volume["metadata"]
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"


@pytest.mark.parametrize(
    ("labels", "topologies", "expected"),
    [
        (None, None, None),
        ({"kubernetes.io/hostname": "one"}, None, None),
        ({ZONE: "a"}, None, [[(ZONE, ["a"])]]),
        (None, BOTH, BOTH),
        ({ZONE: "a"}, [[(ZONE, ["a", "b"])]], [[(ZONE, ["a"])]]),
    ],
)  # fmt: skip
def test_topology(labels, topologies, expected):
    """A volume is reachable in the zone of its first consumer, or where its class allows."""
    terms = [
        {"matchLabelExpressions": [{"key": key, "values": values} for key, values in term]}
        for term in topologies or ()
    ]
    node = None if labels is None else {"metadata": {"name": "one", "labels": labels}}
    volume = new_volume(asking(), a_class(allowedTopologies=terms), node)
    affinity = volume["spec"].get("nodeAffinity")
    found = affinity and [
        [(each["key"], each["values"]) for each in term["matchExpressions"]]
        for term in affinity["required"]["nodeSelectorTerms"]
    ]
    assert found == expected


def test_deletion():
    """Released volumes with the policy Delete are deleted by whoever made them."""
    made = {"pv.kubernetes.io/provisioned-by": DRIVER}
    fields = {"phase": "Released", "persistentVolumeReclaimPolicy": "Delete"}
    volume = a_volume(annotations=made, **fields)
    assert is_released(volume, a_class())
    assert is_released(volume, None)
    assert not is_released(volume, a_class() | OPTED_OUT)
    assert not is_released(a_volume(**fields), a_class())
    assert not is_released(a_volume(annotations=made, **fields | {"phase": "Bound"}), None)
    retained = fields | {"persistentVolumeReclaimPolicy": "Retain"}
    assert not is_released(a_volume(annotations=made, **retained), None)
