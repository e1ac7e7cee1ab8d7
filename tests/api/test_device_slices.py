"""Validation of resource slices, device taint rules and pool status requests."""

import pytest

from tests.api.test_devices import RULE, SLICE
from tests.objects import changed, strategy, write_errors

AT = "spec.devices[0]"
DEVICE = "spec/devices/0"


def _policy(value="10", *, shared=True, **policy):
    capacity = {"m": {"value": value, "requestPolicy": policy}}
    obj = changed(SLICE, f"{DEVICE}/capacity", capacity)
    return changed(obj, f"{DEVICE}/allowMultipleAllocations", True) if shared else obj


POLICIES = [
    (_policy(), []),
    (_policy(default="1"), []),
    (_policy(default="2", validValues=["1", "2"]), []),
    (_policy(default="2", validRange={"min": "1", "max": "9", "step": "1"}), []),
    (_policy(value="1", default="100m", validRange={"min": "0", "step": "100m"}), []),
    (_policy(value="8Gi", default="2Gi",
             validRange={"min": "1Gi", "max": "8Gi", "step": "1Gi"}), []),
    (_policy(shared=False), [": Forbidden: allowMultipleAllocations must be true"]),
    (_policy(validValues=["1"], validRange={"min": "1"}), [
        ': Forbidden: exactly one policy can be specified, cannot specify "validValues" and '
        '"validRange" at the same time',
    ]),
    (_policy(validValues=["1"]), [
        ".default: Required value: required when validValues is defined",
    ]),
    (_policy(validRange={"min": "1"}), [
        ".default: Required value: required when validRange is defined",
    ]),
    (_policy(default="3", validValues=["2", "1", "1", "11"]), [
        '.validValues[1]: Invalid value: "1": values must be sorted in ascending order',
        '.validValues[3]: Invalid value: "11": option is larger than capacity value: 10',
        '.validValues[2]: Duplicate value: "1"',
        '.validValues: Invalid value: "3": default value is not valid according to the '
        "requestPolicy",
    ]),
    (_policy(value="20", default="1", validValues=[str(i) for i in range(1, 12)]), [
        ".validValues: Too many: 11: must have at most 10 items",
        '.validValues: Invalid value: "1": default value is not valid according to the '
        "requestPolicy",
    ]),
    (_policy(default="1", validRange={}), [
        ".validRange.min: Required value: required when validRange is defined",
    ]),
    (_policy(default="1", validRange={"min": "11"}), [
        '.validRange.min: Invalid value: "11": min is larger than capacity value: 10',
        '.validRange.default: Invalid value: "1": default is less than min: 11',
    ]),
    (_policy(default="12", validRange={"min": "2", "max": "11"}), [
        '.validRange.max: Invalid value: "11": max is larger than capacity value: 10',
        '.validRange.default: Invalid value: "12": default is more than max: 11',
    ]),
    (_policy(default="3", validRange={"min": "3", "max": "2"}), [
        '.validRange.max: Invalid value: "3": min is larger than max: 2',
        '.validRange.default: Invalid value: "3": default is more than max: 2',
    ]),
    (_policy(default="1", validRange={"min": "1", "step": "0"}), [
        '.validRange.step: Invalid value: "0": must be greater than zero',
    ]),
    (_policy(default="1", validRange={"min": "1", "step": "10"}), [
        '.validRange.step: Invalid value: "10": one step 11 is larger than capacity value: 10',
    ]),
    (_policy(default="2", validRange={"min": "1", "max": "8", "step": "2"}), [
        f'.validRange.step: Invalid value: "{value}": value is not a multiple of a given step (2) '
        "from (1)"
        for value in (2, 8)
    ]),
    (_policy(default="1", validRange={"min": "-1", "step": "1"}), [
        '.validRange.min: Invalid value: "-1": must be greater than or equal to 0',
    ]),
    (_policy(value="100E", default="1", validRange={"min": "1", "max": "20E", "step": "1"}), [
        '.validRange.max: Invalid value: "20E": must not be larger than 9223372036854775807',
    ]),
    (_policy(default="1100u", validRange={"min": "0"}), [
        '.validRange.default: Invalid value: "1100u": value cannot be represented as a milli value',
    ]),
    (_policy(value="1e2147483647", default="1",
             validRange={"min": "0", "max": "1e2147483647"}), []),
]  # fmt: skip


@pytest.mark.parametrize(("obj", "messages"), POLICIES)
def test_request_policies(obj, messages):
    """Request policies of capacities are validated."""
    path = f"{AT}.capacity[m].requestPolicy"
    result = write_errors("resourceslices", obj)
    assert result == [f"{path}{message}" for message in messages]


COUNTERS = {"memory": {"value": "1Gi"}}
VALID = [
    (f"{DEVICE}/attributes", {"a.example.com/b": {"int": 0}, "c": {"bool": False}}),
    (f"{DEVICE}/attributes/a", {"version": "1.2.3-rc.1+build"}),
    (f"{DEVICE}/consumesCounters", [{"counterSet": "c", "counters": COUNTERS}]),
    (f"{DEVICE}/taints", [{"key": "a/b", "value": "c", "effect": "None"}]),
    ("spec/devices", [{"name": f"d{i}"} for i in range(128)]),
    ("spec/pool/name", "a.b/c"),
]


@pytest.mark.parametrize(("path", "value"), VALID)
def test_valid_slices(path, value):
    """Valid slices give no errors."""
    assert write_errors("resourceslices", changed(SLICE, path, value)) == []


def test_valid_counters():
    """A slice may have shared counters instead of devices."""
    new = changed(changed(SLICE, "spec/devices"), "spec/sharedCounters",
                  [{"name": "c", "counters": COUNTERS}])  # fmt: skip
    assert write_errors("resourceslices", new) == []


ONE_VALUE = "`int`, `bool`, `string`, `version`, `ints`, `bools`, `strings`, `versions`"
NOT_SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
BROKEN = [
    ("spec/pool/name", "", ["spec.pool.name: Required value"]),
    ("spec/pool/name", "a/", [f'spec.pool.name: Invalid value: "": {NOT_SUBDOMAIN}']),
    ("spec/pool/generation", -1, [
        "spec.pool.generation: Invalid value: -1: must be greater than or equal to zero",
    ]),
    ("spec/nodeName", "", [
        'spec.nodeName: Invalid value: "": must be either unset or set to a non-empty string',
        "spec: Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`, "
        "`perDeviceNodeSelection` is required",
    ]),
    ("spec/allNodes", False, [
        "spec.allNodes: Invalid value: false: must be either unset or set to true",
    ]),
    ("spec/nodeSelector", {"nodeSelectorTerms": None}, [
        "spec.nodeSelector.nodeSelectorTerms: Required value: must have at least one node selector "
        "term",
        "spec.nodeSelector.nodeSelectorTerms: Invalid value: null: must have exactly one node "
        "selector term",
        'spec: Invalid value: "{`nodeName`, `nodeSelector`}": exactly one of `nodeName`, '
        "`nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required, but multiple fields are "
        "set",
    ]),
    ("spec/sharedCounters", [{"name": "c", "counters": COUNTERS}], [
        'spec: Invalid value: "": only one of `sharedCounters` or `devices` is allowed',
    ]),
    ("spec/devices", [{"name": f"d{i}"} for i in range(129)], [
        "spec.devices: Too many: 129: must have at most 128 items",
    ]),
    ("spec/devices", [{"name": f"d{i}", "taints": [{"key": "a", "effect": "None"}]}
                      for i in range(65)], [
        "spec.devices: Too many: 65: must have at most 64 items",
    ]),
    (f"{DEVICE}/attributes", {f"a{i}": {"int": 1} for i in range(32)}, [
        f"{AT}: Invalid value: 33: the total number of attributes and capacities must not exceed "
        "32",
    ]),
    (f"{DEVICE}/attributes", {"": {"int": 1}, "a b": {"int": 1}}, [
        f'{AT}.attributes: Invalid value: "{name}": a valid C identifier must start with '
        "alphabetic character or '_', followed by a string of alphanumeric characters or '_' "
        "(e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is "
        "'[A-Za-z_][A-Za-z0-9_]*')"
        for name in ("", "a b")
    ]),
    (f"{DEVICE}/attributes", {"/a": {"int": 1}, "b/": {"int": 1}, "c/d/e": {"int": 1}}, [
        f'{AT}.attributes: Invalid value: "": the domain must not be empty',
        f'{AT}.attributes: Invalid value: "": the name must not be empty',
        f'{AT}.attributes: Invalid value: "c/d/e": must not contain more than one slash',
    ]),
    (f"{DEVICE}/attributes/a", {"int": 1, "string": "x"}, [
        f'{AT}.attributes[a]: Invalid value: "{{int, string}}": must specify exactly one of: '
        f"{ONE_VALUE}",
    ]),
    (f"{DEVICE}/attributes/a", {"string": "x" * 65}, [
        f"{AT}.attributes[a].string: Too long: may not be more than 64 bytes",
    ]),
    (f"{DEVICE}/capacity", {"a-b": {"value": "1"}}, [
        f'{AT}.capacity: Invalid value: "a-b": a valid C identifier must start with alphabetic '
        "character or '_', followed by a string of alphanumeric characters or '_' (e.g. "
        "'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is "
        "'[A-Za-z_][A-Za-z0-9_]*')",
    ]),
    (f"{DEVICE}/taints", [{"key": "a", "effect": ""}], [f"{AT}.taints[0].effect: Required value"]),
    (f"{DEVICE}/taints", [{"key": "a", "effect": "None"}] * 17, [
        f"{AT}.taints: Too many: 17: must have at most 16 items",
    ]),
    (f"{DEVICE}/consumesCounters", [{"counterSet": "", "counters": {}}], [
        f"{AT}.consumesCounters[0].counterSet: Required value",
        f"{AT}.consumesCounters[0].counters: Required value",
    ]),
    (f"{DEVICE}/consumesCounters", [{"counterSet": "c", "counters": COUNTERS}] * 2, [
        f'{AT}.consumesCounters[1]: Duplicate value: {{"counterSet":"c","counters":{{"memory":'
        '{"value":"1Gi"}}}',
    ]),
    (f"{DEVICE}/consumesCounters",
     [{"counterSet": f"c{i}", "counters": COUNTERS} for i in range(3)], [
        f"{AT}.consumesCounters: Too many: 3: must have at most 2 items",
    ]),
    (f"{DEVICE}/consumesCounters",
     [{"counterSet": "c", "counters": {f"m{i}": {"value": "1"} for i in range(33)}}], [
        f"{AT}.consumesCounters[0].counters: Too many: 33: must have at most 32 items",
    ]),
    (f"{DEVICE}/consumesCounters", [{"counterSet": "c", "counters": {"a.b": {"value": "1"}}}], [
        f'{AT}.consumesCounters[0].counters: Invalid value: "a.b": must not contain dots',
    ]),
    (f"{DEVICE}/bindingFailureConditions", ["a", "a"], [
        f'{AT}.bindingFailureConditions[1]: Duplicate value: "a"',
        f"{AT}.bindingConditions: Invalid value: null: bindingConditions are required to use "
        "bindingFailureConditions",
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "messages"), BROKEN)
def test_broken_slices(path, value, messages):
    """Invalid slices give exact messages."""
    assert write_errors("resourceslices", changed(SLICE, path, value)) == messages


EACH = changed(changed(SLICE, "spec/nodeName"), "spec/perDeviceNodeSelection", True)
NODES = [
    ("nodeName", "n", []),
    ("allNodes", True, []),
    ("nodeName", "", [f'{AT}.nodeName: Invalid value: "": must not be empty']),
    (
        "allNodes",
        False,
        [f"{AT}.allNodes: Invalid value: false: must be either unset or set to true"],
    ),
]


@pytest.mark.parametrize(("name", "value", "messages"), NODES)
def test_nodes_of_devices(name, value, messages):
    """With perDeviceNodeSelection, each device must select its nodes."""
    required = (
        f"{AT}: Required value: exactly one of `nodeName`, `nodeSelector`, or `allNodes` is "
        "required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec"
    )
    expected = [*messages, required] if messages else []
    result = write_errors("resourceslices", changed(EACH, f"{DEVICE}/{name}", value))
    assert result == expected
    assert write_errors("resourceslices", EACH) == [required]


def test_unchanged_devices():
    """Unchanged capacities and taints of a device are not validated again, even if its position
    changes."""
    old = _policy(shared=False)
    old = changed(old, f"{DEVICE}/taints", [{"key": "a", "effect": "Odd"}])
    old = changed(old, f"{DEVICE}/attributes/a", {})
    assert len(write_errors("resourceslices", old)) == 3
    new = changed(old, "spec/devices", [{"name": "e"}, *old["spec"]["devices"]])
    assert write_errors("resourceslices", new, old) == []


def test_immutable_fields():
    """Node name, driver and pool name of a slice are immutable."""
    new = changed(changed(SLICE, "spec/nodeName"), "spec/allNodes", True)
    new = changed(changed(new, "spec/driver", "e"), "spec/pool/name", "q")
    assert write_errors("resourceslices", new, SLICE) == [
        'spec.pool.name: Invalid value: "q": field is immutable',
        'spec.driver: Invalid value: "e": field is immutable',
        "spec.nodeName: Invalid value: null: field is immutable",
    ]


def test_disabled_features():
    """Fields of disabled features are dropped."""
    new = changed(SLICE, "spec/skipNodeOperations", ["*"])
    new = changed(new, "spec/partitionTypeAttribute", "a/b")
    new = changed(new, f"{DEVICE}/nodeAllocatableResources", {"cpu": {}})
    new = changed(new, f"{DEVICE}/attributes/a/ints", [1])
    strategy("resourceslices").prepare_for_create(new)
    assert new["spec"] == SLICE["spec"]
    assert new["metadata"]["generation"] == 1


def test_taint_rules():
    """The taint of a rule is validated. An unchanged effect need not be valid."""
    odd = changed(RULE, "spec/taint/effect", "Odd")
    (error,) = write_errors("devicetaintrules", odd)
    assert error.startswith('spec.taint.effect: Unsupported value: "Odd"')
    assert write_errors("devicetaintrules", odd, odd) == []
    assert len(write_errors("devicetaintrules", odd, RULE)) == 1
    ready = {"status": "True", "reason": "R", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    new = changed(RULE, "status/conditions", [{"type": f"T{i}", **ready} for i in range(9)])
    assert write_errors("devicetaintrules/status", new, RULE) == [
        "status.conditions: Too many: 9: must have at most 8 items"
    ]


QUESTION = {
    "kind": "ResourcePoolStatusRequest",
    "apiVersion": "resource.k8s.io/v1alpha3",
    "metadata": {"name": "q"},
    "spec": {"driver": "d.example.com", "limit": 100},
}
QUESTIONS = [
    ("spec/poolName", "a/b", []),
    ("spec/driver", "", ["spec.driver: Required value"]),
    ("spec/poolName", "", ['spec.poolName: Invalid value: "": segment 0: must not be empty']),
    ("spec/limit", 0, ["spec.limit: Invalid value: 0: must be greater than or equal to 1"]),
    ("spec/limit", 1001, ["spec.limit: Invalid value: 1001: must be less than or equal to 1000"]),
]


@pytest.mark.parametrize(("path", "value", "messages"), QUESTIONS)
def test_pool_status_requests(path, value, messages):
    """Driver, pool name and limit of a pool status request are validated."""
    obj = changed(QUESTION, path, value)
    assert write_errors("resourcepoolstatusrequests", obj) == messages


POOL = {"driver": "example.com", "poolName": "p", "generation": 1}
PART = {"attribute": "a/b", "type": "t", "total": 1, "allocatable": 1}
AT_POOL = "status.pools[0]"
ANSWERS = [
    ({"poolCount": 0, "pools": [POOL]}, []),
    ({"pools": [POOL]}, ["status.poolCount: Required value"]),
    ({"poolCount": -1}, [
        "status.poolCount: Invalid value: -1: must be greater than or equal to 0"
    ]),
    ({"poolCount": 1, "pools": [{**POOL, "driver": "", "poolName": "a//b"}]}, [
        f"{AT_POOL}.driver: Required value",
        f'{AT_POOL}.poolName: Invalid value: "a//b": segment 1: must not be empty',
    ]),
    ({"poolCount": 1, "pools": [{
        **POOL, "resourceSliceCount": 0, "totalDevices": -1, "validationError": "x" * 257
    }]}, [
        f"{AT_POOL}.resourceSliceCount: Invalid value: 0: must be greater than or equal to 1",
        f"{AT_POOL}.totalDevices: Invalid value: -1: must be greater than or equal to 0",
        f"{AT_POOL}.validationError: Too long: may not be more than 256 bytes",
    ]),
    ({"poolCount": 1, "pools": [{**POOL, "partitionSummary": [PART, {**PART, "total": None}]}]}, [
        f'{AT_POOL}.partitionSummary[1]: Duplicate value: {{"attribute":"a/b","type":"t",'
        '"total":null,"allocatable":1}',
        f"{AT_POOL}.partitionSummary[1].total: Required value",
    ]),
    ({"poolCount": 1, "pools": [{**POOL, "shareableSummary": {"fullyAvailableDevices": 0}}]}, [
        f"{AT_POOL}.shareableSummary.partiallyAvailableDevices: Required value"
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("status", "messages"), ANSWERS)
def test_pool_statuses(status, messages):
    """The status of a pool status request is validated."""
    new = changed(QUESTION, "status", status)
    assert write_errors("resourcepoolstatusrequests/status", new, QUESTION) == messages


def test_pool_status_is_immutable():
    """The status of a pool status request is immutable once it is set."""
    old = changed(QUESTION, "status", {"poolCount": 1})
    new = changed(old, "status/poolCount", 2)
    rules = strategy("resourcepoolstatusrequests/status")
    assert rules.validate_update(old, QUESTION) == []
    (error,) = rules.validate_update(new, old)
    assert (error.path.text, error.detail) == ("status", "field is immutable")
