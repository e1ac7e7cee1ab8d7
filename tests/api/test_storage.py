"""The storage group: storage classes, drivers, attachments and capacities."""

import pytest

from kapiserver.api import names
from tests.api.test_columns import cells
from tests.objects import GONE, changed, defaulted, strategy, write_errors


def _object(kind, **fields):
    return {"kind": kind, "apiVersion": "storage.k8s.io/v1", "metadata": {"name": "x"}, **fields}


CLASS = defaulted(_object("StorageClass", provisioner="example.com/disk"))
DRIVER = defaulted(_object("CSIDriver", spec={}))
TOKENS = changed(DRIVER, "spec/tokenRequests", [{"audience": "a"}])
ATTRIBUTES = _object(
    "VolumeAttributesClass", driverName="disk.example.com", parameters={"speed": "9"}
)
ATTACHMENT = _object(
    "VolumeAttachment",
    spec={"attacher": "disk", "source": {"persistentVolumeName": "v"}, "nodeName": "n"},
    status={"attached": False},
)
NODE = _object(
    "CSINode", spec={"drivers": [{"name": "disk", "nodeID": "i", "topologyKeys": None}]}, status={}
)
CAPACITY = _object("CSIStorageCapacity", storageClassName="fast", capacity="1Gi")

NEW = [
    ("storageclasses", CLASS, "", GONE, []),
    ("storageclasses", CLASS, "provisioner", "", ["provisioner: Required value"]),
    ("storageclasses", CLASS, "reclaimPolicy", "Recycle", [
        'reclaimPolicy: Unsupported value: "Recycle": supported values: "Delete", "Retain"'
    ]),
    ("storageclasses", CLASS, "volumeBindingMode", "Odd", [
        'volumeBindingMode: Unsupported value: "Odd": supported values: "Immediate", '
        '"WaitForFirstConsumer"'
    ]),
    ("storageclasses", CLASS, "parameters", {"": "x"}, [
        'parameters: Invalid value: "": field can not be empty.'
    ]),
    ("storageclasses", CLASS, "allowedTopologies",
     [{"matchLabelExpressions": [{"key": "a", "values": ["b", "b"]}]}, {}], [
        'allowedTopologies[0].matchLabelExpressions[0].values[1]: Duplicate value: "b"',
        "allowedTopologies[1].matchLabelExpressions: Required value",
        'allowedTopologies[1].matchLabelExpressions: Duplicate value: ""',
        'allowedTopologies[1].matchLabelExpressions: Duplicate value: ""',
    ]),
    ("volumeattributesclasses", ATTRIBUTES, "", GONE, []),
    ("volumeattributesclasses", ATTRIBUTES, "parameters", GONE, [
        "parameters: Required value: must contain at least one key/value pair"
    ]),
    ("volumeattachments", ATTACHMENT, "", GONE, []),
    ("volumeattachments", ATTACHMENT, "spec/source", {}, [
        "spec.source: Required value: must specify exactly one of inlineVolumeSpec and "
        "persistentVolumeName"
    ]),
    ("volumeattachments", ATTACHMENT, "spec/source", {"inlineVolumeSpec": {}}, [
        "spec.source.inlineVolumeSpec.csi: Required value: has to be specified in the context of "
        "inline volumes",
        "spec.source.inlineVolumeSpec.accessModes: Required value",
        "spec.source.inlineVolumeSpec: Required value: must specify a volume type",
    ]),
    ("csinodes", NODE, "", GONE, []),
    ("csinodes", NODE, "spec/drivers/0/nodeID", "", ["spec.drivers[0].nodeID: Required value"]),
    ("csinodes", NODE, "spec/drivers", NODE["spec"]["drivers"] * 2, [
        'spec.drivers[1].name: Duplicate value: "disk"'
    ]),
    ("csidrivers", DRIVER, "", GONE, []),
    ("csidrivers", DRIVER, "spec/fsGroupPolicy", "Odd", [
        'spec.fsGroupPolicy: Unsupported value: "Odd": supported values: "File", "None", '
        '"ReadWriteOnceWithFSType"'
    ]),
    ("csidrivers", DRIVER, "spec/tokenRequests", [{"audience": "a", "expirationSeconds": 1}], [
        "spec.tokenRequests[0].expirationSeconds: Invalid value: 1: may not specify a duration "
        "less than 10 minutes"
    ]),
    ("csidrivers", DRIVER, "spec/nodeAllocatableUpdatePeriodSeconds", 9, [
        "spec.nodeAllocatableUpdatePeriodSeconds: Invalid value: 9: must be greater than or "
        "equal to 10 seconds"
    ]),
    ("csidrivers", DRIVER, "spec/serviceAccountTokenInSecrets", False, [
        "spec.serviceAccountTokenInSecrets: Invalid value: false: serviceAccountTokenInSecrets is "
        "set but no tokenRequests are specified"
    ]),
    ("csidrivers", TOKENS, "spec/serviceAccountTokenInSecrets", True, []),
    ("csidrivers", DRIVER, "spec/volumeLifecycleModes", ["Odd"], [
        'spec.volumeLifecycleModes: Unsupported value: "Odd": supported values: "Persistent", '
        '"Ephemeral"'
    ]),
    ("csistoragecapacities", CAPACITY, "capacity", "-1", [
        'capacity: Invalid value: "-1": must be greater than or equal to 0'
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "base", "path", "value", "messages"), NEW)
def test_new(name, base, path, value, messages):
    """New objects of each kind are validated."""
    assert write_errors(name, changed(base, path, value)) == messages


KEPT = [
    ("storageclasses", CLASS, "provisioner", "other", [
        "provisioner: Invalid value: null: field is immutable"
    ]),
    ("storageclasses", CLASS, "provisioner", "", [
        "provisioner: Invalid value: null: field is immutable",
        "provisioner: Required value",
    ]),
    ("storageclasses", CLASS, "provisioner", "bad name", [
        'provisioner: Invalid value: "bad name": ' + names.qualified_name("bad name")[0],
        "provisioner: Invalid value: null: field is immutable",
    ]),
    ("storageclasses", CLASS, "parameters", {"a": "b"}, [
        "parameters: Invalid value: null: field is immutable"
    ]),
    ("storageclasses", CLASS, "reclaimPolicy", "Retain", [
        "reclaimPolicy: Invalid value: null: field is immutable"
    ]),
    ("storageclasses", CLASS, "volumeBindingMode", "WaitForFirstConsumer", [
        "volumeBindingMode: Invalid value: null: field is immutable"
    ]),
    ("storageclasses", CLASS, "allowVolumeExpansion", True, []),
    ("volumeattributesclasses", ATTRIBUTES, "driverName", "other", [
        "driverName: Forbidden: updates to driverName are forbidden."
    ]),
    ("volumeattachments", ATTACHMENT, "spec/nodeName", "m", [
        "spec: Invalid value: null: field is immutable"
    ]),
    ("csinodes", NODE, "spec/drivers/0/nodeID", "j", [
        'spec.drivers: Invalid value: {"name":"disk","nodeID":"j","topologyKeys":null}: '
        "field is immutable"
    ]),
    ("csinodes", NODE, "spec/drivers/0/allocatable", {"count": 3}, []),
    ("csidrivers", DRIVER, "spec/attachRequired", False, [
        "spec.attachedRequired: Invalid value: false: field is immutable"
    ]),
    ("csidrivers", DRIVER, "spec/podInfoOnMount", True, []),
    ("csistoragecapacities", CAPACITY, "storageClassName", "slow", [
        'storageClassName: Invalid value: "slow": field is immutable'
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "base", "path", "value", "messages"), KEPT)
def test_changed(name, base, path, value, messages):
    """Immutable fields give exact messages."""
    assert write_errors(name, changed(base, path, value), base) == messages


HEALTH = {"name": "disk", "healthConditions": []}


@pytest.mark.parametrize(
    ("name", "base", "part", "value"),
    [
        ("csinodes", NODE, "storageHealth", [HEALTH]),
        ("persistentvolumeclaims", {"status": {"phase": "Bound"}}, "healthStatus", {"a": 1}),
    ],
)
def test_health_of_volumes(name, base, part, value):
    """Status fields of a disabled feature are dropped, unless the old object has them."""
    status = strategy(f"{name}/status")
    old_object = {**changed(base), "metadata": {"name": "x"}}
    updated = changed(old_object, f"status/{part}", value)
    for old, is_kept in ((old_object, False), (updated, True)):
        new = changed(updated)
        status.prepare_for_update(new, old)
        assert (part in new["status"]) is is_kept


def test_driver_generations():
    """The generation of a driver counts changes of its spec, from 0."""
    old, new = changed(DRIVER), changed(DRIVER, "spec/podInfoOnMount", True)
    strategy("csidrivers").prepare_for_create(old)
    strategy("csidrivers").prepare_for_update(new, old)
    assert "generation" not in old["metadata"]
    assert new["metadata"]["generation"] == 1


def test_defaults():
    """Drivers and classes get defaults, in declared order."""
    assert DRIVER["spec"] == {
        "attachRequired": True, "podInfoOnMount": False, "volumeLifecycleModes": ["Persistent"],
        "storageCapacity": False, "fsGroupPolicy": "ReadWriteOnceWithFSType",
        "requiresRepublish": False, "seLinuxMount": False, "preventPodSchedulingIfMissing": False,
    }  # fmt: skip
    assert (CLASS["reclaimPolicy"], CLASS["volumeBindingMode"]) == ("Delete", "Immediate")


def test_deprecated_labels():
    """Deprecated node labels in allowed topologies give warnings."""
    term = {"matchLabelExpressions": [{"key": "beta.kubernetes.io/os", "values": ["linux"]}]}
    obj = changed(CLASS, "allowedTopologies", [term])
    assert strategy("storageclasses").warnings(obj, None) == [
        "allowedTopologies[0].matchLabelExpressions[0].key: deprecated since v1.14; use "
        '"kubernetes.io/os" instead'
    ]


def test_deprecated_labels_of_capacities():
    """Deprecated node labels in a node topology give warnings."""
    topology = {
        "matchLabels": {"beta.kubernetes.io/arch": "arm64", "a": "b"},
        "matchExpressions": [{"key": "beta.kubernetes.io/os", "operator": "Exists"}],
    }
    obj = changed(CAPACITY, "nodeTopology", topology)
    assert strategy("csistoragecapacities").warnings(obj, None) == [
        "nodeTopology.matchExpressions[0].key: beta.kubernetes.io/os is deprecated since v1.14; "
        'use "kubernetes.io/os" instead',
        "nodeTopology.matchLabels.beta.kubernetes.io/arch: deprecated since v1.14; use "
        '"kubernetes.io/arch" instead',
    ]


def test_old_label_values():
    """An invalid label value of the old topology may stay."""
    requirement = {"key": "a", "operator": "In", "values": ["?"]}
    old = changed(CAPACITY, "nodeTopology", {"matchExpressions": [requirement]})
    rules = strategy("csistoragecapacities")
    assert rules.validate_update(changed(old, "capacity", "2Gi"), old) == []
    (errors,) = rules.validate(old)
    assert str(errors.path) == "nodeTopology.matchExpressions[0].values[0]"


def test_token_warnings():
    """New token requests give a warning if tokens may be logged."""
    warnings = strategy("csidrivers").warnings
    (messages,) = warnings(TOKENS, DRIVER)
    assert messages.startswith(
        "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI"
    )
    assert warnings(TOKENS, None) == [messages]
    assert warnings(changed(TOKENS, "spec/tokenRequests/0/audience", "b"), TOKENS) == [messages]
    for is_set in (True, False):
        assert warnings(changed(TOKENS, "spec/serviceAccountTokenInSecrets", is_set), None) == []
    assert warnings(changed(TOKENS, "spec/podInfoOnMount", True), TOKENS) == []
    assert warnings(DRIVER, TOKENS) == []


CELLS = [
    ("storageclasses", CLASS, ["x", "example.com/disk", "Delete", "Immediate", False]),
    ("csidrivers", DRIVER, ["x", True, False, False, "<unset>", False, "Persistent"]),
    ("csinodes", NODE, ["x", 1]),
    ("volumeattachments", ATTACHMENT, ["x", "disk", "v", "n", False]),
    ("volumeattributesclasses", ATTRIBUTES, ["x", "disk.example.com"]),
]


@pytest.mark.parametrize(("name", "obj", "expected"), CELLS)
def test_cells(name, obj, expected):
    """Columns show the values of kubectl."""
    assert [cell for column, cell in cells(name, obj).items() if column != "Age"] == expected


def test_default_class_is_marked():
    """The name column marks the default class."""
    key = "storageclass.kubernetes.io/is-default-class"
    obj = changed(CLASS, "metadata/annotations", {key: "true"})
    assert cells("storageclasses", obj)["Name"] == "x (default)"
