"""Persistent volumes and claims: validation, updates, defaults, warnings and columns."""

import copy

import pytest

from kapiserver.api.core.validation.volumes import validate_volumes
from kapiserver.api.errors import Path
from tests.api.test_columns import cells
from tests.objects import GONE, changed, defaulted, strategy, texts

VOLUME = {
    "kind": "PersistentVolume",
    "apiVersion": "v1",
    "metadata": {"name": "v"},
    "spec": {
        "capacity": {"storage": "1Gi"},
        "hostPath": {"path": "/data"},
        "accessModes": ["ReadWriteOnce"],
    },
    "status": {},
}
CLAIM = {
    "kind": "PersistentVolumeClaim",
    "apiVersion": "v1",
    "metadata": {"name": "c", "namespace": "n"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    },
    "status": {},
}
MODES = 'supported values: "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"'

VOLUMES = [
    ("", GONE, []),
    ("spec/hostPath", GONE, ["spec: Required value: must specify a volume type"]),
    ("spec/nfs", {"server": "s", "path": "/"}, [
        "spec.nfs: Forbidden: may not specify more than 1 volume type"
    ]),
    ("spec/accessModes", [], ["spec.accessModes: Required value"]),
    ("spec/accessModes", ["Odd"], [f'spec.accessModes: Unsupported value: "Odd": {MODES}']),
    ("spec/capacity", GONE, [
        "spec.capacity: Required value",
        'spec.capacity: Unsupported value: null: supported values: "storage"',
    ]),
    ("spec/capacity/storage", "0", [
        'spec.capacity[storage]: Invalid value: "0": must be greater than zero'
    ]),
    ("spec/capacity/cpu", "1", [
        'spec.capacity: Unsupported value: {"storage":"1Gi","cpu":"1"}: '
        'supported values: "storage"'
    ]),
    ("spec/persistentVolumeReclaimPolicy", "Odd", [
        'spec.persistentVolumeReclaimPolicy: Unsupported value: "Odd": supported values: '
        '"Delete", "Recycle", "Retain"'
    ]),
    ("spec/volumeMode", "Odd", [
        'spec.volumeMode: Unsupported value: "Odd": supported values: "Block", "Filesystem"'
    ]),
    ("spec/nodeAffinity", {}, [
        "spec.nodeAffinity.required: Required value: must specify required node constraints"
    ]),
    ("spec/volumeAttributesClassName", "gold", [
        "spec.csi: Required value: has to be specified when using volumeAttributesClassName"
    ]),
]  # fmt: skip
SOURCES = [
    ("local", {"path": "/a/.."}, [
        "spec.local.path: Invalid value: \"/a/..\": must not contain '..'",
        "spec.nodeAffinity: Required value: Local volume requires node affinity",
    ]),
    ("csi", {"driver": "", "volumeHandle": ""}, [
        "spec.csi.driver: Required value",
        "spec.csi.volumeHandle: Required value",
    ]),
    ("gcePersistentDisk", {"pdName": ""}, ["spec.persistentDisk.pdName: Required value"]),
    ("iscsi", {"targetPortal": "p", "iqn": "x", "lun": 256}, [
        'spec.iscsi.iqn: Invalid value: "x": must be valid format',
        "spec.iscsi.lun: Invalid value: 256: must be between 0 and 255, inclusive",
    ]),
    ("nfs", {"server": "s", "path": "a"}, [
        'spec.nfs.path: Invalid value: "a": must be an absolute path'
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "messages"), VOLUMES)
def test_volumes(path, value, messages):
    """Persistent volumes are validated."""
    assert texts(strategy("persistentvolumes").validate(changed(VOLUME, path, value))) == messages


@pytest.mark.parametrize(("name", "source", "messages"), SOURCES)
def test_sources(name, source, messages):
    """Each invalid field of a volume source gives exactly its messages."""
    obj = changed(changed(VOLUME, "spec/hostPath"), f"spec/{name}", source)
    errors = texts(strategy("persistentvolumes").validate(obj))
    assert [text for text in errors if "RFC 1123" not in text] == messages


def test_volume_begins_as_pending():
    """A new volume is Pending, whatever its status in the request."""
    obj = changed(VOLUME, "status", {"phase": "Bound"})
    obj["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    strategy("persistentvolumes").prepare_for_create(obj)
    assert obj["status"] == {
        "phase": "Pending",
        "lastPhaseTransitionTime": "2026-01-01T00:00:00Z",
    }


def test_immutable_source():
    """The source of a volume is immutable, and the message contains a diff."""
    new = changed(VOLUME, "spec/hostPath/path", "/other")
    (error,) = strategy("persistentvolumes").validate_update(new, VOLUME)
    assert str(error).startswith(
        "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after "
        "creation\n@@ -"
    )
    assert '-  "Path": "/data",\n+  "Path": "/other",\n' in str(error)


CLAIMS = [
    ("", GONE, []),
    ("spec/accessModes", GONE, [
        "spec.accessModes: Required value: at least 1 access mode is required"
    ]),
    ("spec/accessModes", ["ReadWriteOnce", "ReadWriteOncePod"], [
        "spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes"
    ]),
    ("spec/resources/requests", GONE, ["spec.resources[storage]: Required value"]),
    ("spec/resources/requests/storage", "-1", [
        'spec.resources[storage]: Invalid value: "-1": must be greater than zero'
    ]),
    ("spec/volumeMode", "Odd", [
        'spec.volumeMode: Unsupported value: "Odd": supported values: "Block", "Filesystem"'
    ]),
    ("spec/dataSource", {"kind": "Odd", "name": "x"}, [
        'spec.dataSource: Invalid value: "Odd": must be \'PersistentVolumeClaim\' when '
        "referencing the default apiGroup"
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "messages"), CLAIMS)
def test_claims(path, value, messages):
    """Claims are validated."""
    errors = strategy("persistentvolumeclaims").validate(changed(CLAIM, path, value))
    assert texts(errors) == messages


def test_claims_of_ephemeral_volumes():
    """The claim template of an ephemeral volume is validated like a claim."""
    volume = {"name": "v", "ephemeral": {"volumeClaimTemplate": {"metadata": {}, "spec": {}}}}
    path = "spec.volumes[0].ephemeral.volumeClaimTemplate.spec"
    assert texts(validate_volumes({"volumes": [volume]}, Path("spec"))[1]) == [
        f"{path}.accessModes: Required value: at least 1 access mode is required",
        f"{path}.resources[storage]: Required value",
    ]


def test_immutable_claim():
    """The spec of a claim is immutable, and the message contains a diff."""
    new = changed(CLAIM, "spec/accessModes", ["ReadWriteMany"])
    assert texts(strategy("persistentvolumeclaims").validate_update(new, CLAIM)) == [
        "spec: Forbidden: spec is immutable after creation except resources.requests and "
        "volumeAttributesClassName for bound claims\n"
        "@@ -1,6 +1,6 @@\n"
        " {\n"
        '  "AccessModes": [\n'
        '-  "ReadWriteOnce"\n'
        '+  "ReadWriteMany"\n'
        "  ],\n"
        '  "Selector": null,\n'
        '  "Resources": {\n'
    ]


def test_large_changes_are_not_shown():
    """The message about a very large change contains no diff."""
    new = changed(CLAIM, "spec/accessModes", ["ReadWriteMany"] * 5000)
    (error,) = strategy("persistentvolumeclaims").validate_update(new, CLAIM)
    assert error.detail.endswith("for bound claims\n")


GROWTH = [
    ("Bound", "2Gi", []),
    ("Bound", "512Mi", ["field can not be less than status.capacity"]),
    ("Pending", "2Gi", ["spec is immutable after creation"]),
]


@pytest.mark.parametrize(("phase", "size", "details"), GROWTH)
def test_claims_grow(phase, size, details):
    """The request of a bound claim may grow, and cannot fall below its capacity."""
    old = changed(CLAIM, "status", {"phase": phase, "capacity": {"storage": "1Gi"}})
    new = changed(old, "spec/resources/requests/storage", size)
    errors = strategy("persistentvolumeclaims").validate_update(new, old)
    assert [error.detail[: len(detail)] for error, detail in zip(errors, details, strict=True)] == (
        details
    )


def test_class_assignment():
    """A claim without a storage class or volume may get one, once."""
    new = changed(changed(CLAIM, "spec/storageClassName", "fast"), "spec/volumeName", "v")
    assert strategy("persistentvolumeclaims").validate_update(new, CLAIM) == []
    assert strategy("persistentvolumeclaims").validate_update(CLAIM, new)


def test_data_source_fields():
    """dataSource and dataSourceRef are kept equal."""
    source = {"kind": "PersistentVolumeClaim", "name": "other"}
    for field, other_field in (("dataSource", "dataSourceRef"), ("dataSourceRef", "dataSource")):
        obj = changed(CLAIM, f"spec/{field}", source)
        strategy("persistentvolumeclaims").prepare_for_create(obj)
        assert obj["spec"][other_field] == source


def test_status():
    """Updates of a claim keep its status, and updates of the status keep the claim."""
    old = changed(CLAIM, "status", {"phase": "Bound"})
    new = changed(changed(old, "status", {}), "spec/volumeName", "v")
    updated = copy.deepcopy(new)
    strategy("persistentvolumeclaims").prepare_for_update(new, old)
    assert new["status"] == {"phase": "Bound"}
    strategy("persistentvolumeclaims/status").prepare_for_update(updated, old)
    assert updated["spec"] == old["spec"]


def test_warnings():
    """Deprecated fields give warnings."""
    obj = changed(VOLUME, "metadata/annotations", {"volume.beta.kubernetes.io/storage-class": "x"})
    obj = changed(obj, "spec/persistentVolumeReclaimPolicy", "Recycle")
    assert strategy("persistentvolumes").warnings(obj, None) == [
        "metadata.annotations[volume.beta.kubernetes.io/storage-class]: deprecated since v1.8; "
        'use "storageClassName" attribute instead',
        "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, "
        "the recommended approach is to use dynamic provisioning.",
    ]
    claim = changed(CLAIM, "spec/resources/requests/storage", "1500m")
    assert strategy("persistentvolumeclaims").warnings(claim, None) == [
        'spec.resources.requests[storage]: fractional byte value "1500m" is invalid, must be an '
        "integer"
    ]


def test_cells():
    """Columns show sizes, modes, classes and bindings."""
    volume = changed(defaulted(VOLUME), "spec/claimRef", {"namespace": "n", "name": "c"})
    row = cells("persistentvolumes", volume)
    assert row == {
        "Name": "v", "Capacity": "1Gi", "Access Modes": "RWO", "Reclaim Policy": "Retain",
        "Status": "Pending", "Claim": "n/c", "StorageClass": "",
        "VolumeAttributesClass": "<unset>", "Reason": "", "Age": "<unknown>",
        "VolumeMode": "Filesystem",
    }  # fmt: skip
    claim = changed(defaulted(CLAIM), "spec/storageClassName", "fast")
    row = cells("persistentvolumeclaims", claim)
    assert (row["Status"], row["Capacity"], row["StorageClass"]) == ("Pending", "", "fast")
