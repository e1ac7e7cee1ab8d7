"""The resource group: claims, device classes, slices and taints."""

import pytest

from tests.api.test_columns import cells
from tests.objects import GONE, SCHEME, changed, defaulted, write_errors


def _object(kind, *, namespace=None, **fields):
    metadata = {"name": "x", "namespace": namespace} if namespace else {"name": "x"}
    return {"kind": kind, "apiVersion": "resource.k8s.io/v1", "metadata": metadata, **fields}


REQUEST = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
CLAIM = defaulted(
    _object("ResourceClaim", namespace="n", spec={"devices": {"requests": [REQUEST]}}, status={})
)
DEVICE = {"name": "d", "attributes": {"a": {"string": "x"}}, "capacity": {"m": {"value": "1Gi"}}}
SLICE = _object(
    "ResourceSlice",
    spec={
        "driver": "gpu.example.com",
        "pool": {"name": "p", "generation": 0, "resourceSliceCount": 1},
        "nodeName": "n",
        "devices": [DEVICE],
    },
)
RULE = _object(
    "DeviceTaintRule",
    spec={"deviceSelector": {"driver": "d"}, "taint": {"key": "k", "effect": "NoExecute"}},
    status={},
)
CLASS = _object("DeviceClass", spec={"selectors": [{"cel": {"expression": "true"}}]})
GIVEN = {"request": "r", "driver": "gpu.example.com", "pool": "p", "device": "d"}
USER = {"resource": "pods", "name": "p", "uid": "1"}

NEW = [
    ("resourceclaims", CLAIM, "", GONE, []),
    ("resourceclaims", CLAIM, "spec/devices/requests/0/exactly", GONE, [
        "spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` "
        "is required"
    ]),
    ("resourceclaims", CLAIM, "spec/devices/requests/0/exactly/deviceClassName", "", [
        "spec.devices.requests[0].exactly.deviceClassName: Required value"
    ]),
    ("resourceclaims", CLAIM, "spec/devices/requests/0/exactly/count", -1, [
        "spec.devices.requests[0].exactly.count: Invalid value: -1: must be greater than zero"
    ]),
    ("resourceclaims", CLAIM, "spec/devices/requests/0/exactly/allocationMode", "Odd", [
        'spec.devices.requests[0].exactly.allocationMode: Unsupported value: "Odd": supported '
        'values: "All", "ExactCount"'
    ]),
    ("resourceclaims", CLAIM, "spec/devices/requests", CLAIM["spec"]["devices"]["requests"] * 2, [
        'spec.devices.requests[1]: Duplicate value: {"name":"r","exactly":{"deviceClassName":"gpu",'
        '"allocationMode":"ExactCount","count":1}}'
    ]),
    ("resourceclaims", CLAIM, "spec/devices/constraints",
     [{"requests": ["s"], "matchAttribute": "a"}], [
        'spec.devices.constraints[0].requests[0]: Invalid value: "s": must be the name of a '
        "request in the claim or the name of a request and a subrequest separated by '/'",
        'spec.devices.constraints[0].matchAttribute: Invalid value: "a": a fully qualified name '
        "must be a domain and a name separated by a slash",
    ]),
    ("resourceclaims", CLAIM, "spec/devices/config", [{"requests": ["r"]}], [
        "spec.devices.config[0].opaque: Required value"
    ]),
    ("resourceslices", SLICE, "", GONE, []),
    ("resourceslices", SLICE, "spec/nodeName", GONE, [
        "spec: Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`, "
        "`perDeviceNodeSelection` is required"
    ]),
    ("resourceslices", SLICE, "spec/allNodes", True, [
        'spec: Invalid value: "{`nodeName`, `allNodes`}": exactly one of `nodeName`, '
        "`nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required, but multiple fields "
        "are set"
    ]),
    ("resourceslices", SLICE, "spec/pool/resourceSliceCount", 0, [
        "spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero"
    ]),
    ("resourceslices", SLICE, "spec/devices", [DEVICE, DEVICE], [
        'spec.devices[1]: Duplicate value: "d"'
    ]),
    ("resourceslices", SLICE, "spec/devices/0/attributes/a", {}, [
        'spec.devices[0].attributes[a]: Invalid value: "": must specify one of: `int`, `bool`, '
        "`string`, `version`, `ints`, `bools`, `strings`, `versions`"
    ]),
    ("resourceslices", SLICE, "spec/devices/0/attributes/a", {"version": "1"}, [
        'spec.devices[0].attributes[a].version: Invalid value: "1": must be a string compatible '
        "with semver.org spec 2.0.0"
    ]),
    ("resourceslices", SLICE, "spec/devices/0/nodeName", "n", [
        'spec.devices[0]: Invalid value: null: `nodeName`, `nodeSelector` and `allNodes` can '
        "only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec"
    ]),
    ("resourceslices", changed(SLICE, "spec/devices/0/bindingConditions", ["a"]),
     "spec/devices/0/bindingFailureConditions", ["b"], []),
    ("resourceslices", changed(SLICE, "spec/devices/0/bindingConditions", ["a"]),
     "spec/devices/0/bindingFailureConditions", ["a"], [
        'spec.devices[0].bindingFailureConditions[0]: Invalid value: "a": '
        "bindingFailureConditions must not overlap with bindingConditions"
    ]),
    ("devicetaintrules", RULE, "", GONE, []),
    ("devicetaintrules", RULE, "spec/taint/effect", "Odd", [
        'spec.taint.effect: Unsupported value: "Odd": supported values: "NoExecute", '
        '"NoSchedule", "None"'
    ]),
    ("deviceclasses", CLASS, "", GONE, []),
    ("deviceclasses", CLASS, "spec/selectors/0", {}, ["spec.selectors[0].cel: Required value"]),
    ("deviceclasses", CLASS, "spec/extendedResourceName", "cpu", [
        "spec.extendedResourceName: Invalid value: \"cpu\": a name must be a domain-prefixed path, "
        "such as 'example.com/my-prop'"
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "base", "path", "value", "messages"), NEW)
def test_new(name, base, path, value, messages):
    """New objects of each kind are validated."""
    assert write_errors(name, changed(base, path, value)) == messages


def test_default_count():
    """A request is for one device by default, in old versions, too."""
    exactly = CLAIM["spec"]["devices"]["requests"][0]["exactly"]
    assert exactly == {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    old = {"name": "r", "deviceClassName": "gpu"}
    obj = _object("ResourceClaim", spec={"devices": {"requests": [old]}}, status={})
    obj["apiVersion"] = "resource.k8s.io/v1beta1"
    SCHEME.default(obj)
    assert obj["spec"]["devices"]["requests"][0]["count"] == 1


def _status(**status):
    new = changed(CLAIM, "status", status)
    return write_errors("resourceclaims/status", new, CLAIM)


def test_claim_statuses():
    """An allocation refers to requests of the claim, and consumers need an allocation."""
    allocation = {"devices": {"results": [GIVEN]}}
    assert _status(allocation=allocation, reservedFor=[USER]) == []
    assert _status(reservedFor=[USER]) == [
        "status.reservedFor: Forbidden: may not be specified when `allocated` is not set"
    ]
    (wrong,) = _status(allocation={"devices": {"results": [{**GIVEN, "request": "s"}]}})
    assert wrong.startswith('status.allocation.devices.results[0].request: Invalid value: "s"')
    old = changed(CLAIM, "status/allocation", allocation)
    new = changed(old, "status/allocation/devices/results", [])
    (error,) = write_errors("resourceclaims/status", new, old)
    assert error == ("status.allocation: Invalid value: null: field cannot be modified once set")


def test_immutable_fields():
    """The spec of a claim and the node of a slice are immutable."""
    new = changed(CLAIM, "spec/devices/requests", [])
    assert write_errors("resourceclaims", new, CLAIM) == [
        "spec: Invalid value: null: field is immutable"
    ]
    new = changed(SLICE, "spec/nodeName", "m")
    assert write_errors("resourceslices", new, SLICE) == [
        'spec.nodeName: Invalid value: "m": field is immutable'
    ]


CLAIMS = [
    ({}, "pending"),
    ({"allocation": {}}, "allocated"),
    ({"allocation": {}, "reservedFor": [USER]}, "allocated,reserved"),
]


@pytest.mark.parametrize(("status", "state"), CLAIMS)
def test_cells_of_claims(status, state):
    """Columns show whether a claim is allocated."""
    assert cells("resourceclaims", changed(CLAIM, "status", status))["State"] == state


def test_cells_of_slices():
    """Columns show the node, the driver and the pool of a slice."""
    row = cells("resourceslices", SLICE)
    assert (row["Node"], row["Driver"], row["Pool"]) == ("n", "gpu.example.com", "p")
