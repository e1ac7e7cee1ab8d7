"""Validation of resource claims, claim templates and device classes, and of claim statuses."""

import pytest

from tests.api.test_devices import CLAIM, CLASS, GIVEN, REQUEST, USER
from tests.objects import GONE, changed, defaulted, strategy, write_errors

EXACTLY = "spec/devices/requests/0/exactly"
AT = "spec.devices.requests[0].exactly"
NOT_LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
NOT_REQUEST = (
    "must be the name of a request in the claim or the name of a request and a subrequest "
    "separated by '/'"
)
OPAQUE = {"opaque": {"driver": "d.example.com", "parameters": {"a": 1}}}
SUB = {"name": "s", "deviceClassName": "gpu"}


def _selected(expression):
    return [{"cel": {"expression": expression}}]


VALID = [
    ("spec/devices/requests", []),
    (f"{EXACTLY}/allocationMode", "ExactCount"),
    (f"{EXACTLY}/selectors", _selected("device.driver == 'x'")),
    (f"{EXACTLY}/selectors", _selected("device.attributes['a.example.com'].b")),
    (f"{EXACTLY}/selectors", _selected("device.capacity['a'].m.compareTo(quantity('1Gi')) > 0")),
    (f"{EXACTLY}/selectors", _selected("device.attributes['a'].v.isLessThan(semver('1.0.0'))")),
    (f"{EXACTLY}/selectors", _selected("cel.bind(d, device.attributes['a'], d.x && d.y)")),
    (f"{EXACTLY}/selectors", _selected("device.allowMultipleAllocations == true")),
    (f"{EXACTLY}/tolerations", [{"operator": "Exists"}] * 17),
    (f"{EXACTLY}/tolerations", [{"key": "a/b", "operator": "Equal", "value": "c"}]),
    ("spec/devices/requests/0", {"name": "r", "firstAvailable": [SUB]}),
    ("spec/devices/constraints", [{"matchAttribute": "a.example.com/b"}]),
    ("spec/devices/constraints", [{"distinctAttribute": "a/b", "requests": ["r"]}]),
    ("spec/devices/config", [OPAQUE]),
]


@pytest.mark.parametrize(("path", "value"), VALID)
def test_valid_claims(path, value):
    """Valid claims give no errors."""
    assert write_errors("resourceclaims", defaulted(changed(CLAIM, path, value))) == []


BROKEN = [
    ("spec/devices/requests/0/name", "", [
        f'spec.devices.requests[0].name: Invalid value: "": {NOT_LABEL}',
    ]),
    ("spec/devices/requests/0/name", "a.b", [
        'spec.devices.requests[0].name: Invalid value: "a.b": must not contain dots',
    ]),
    ("spec/devices/requests", [{**REQUEST, "name": f"r{i}"} for i in range(33)], [
        "spec.devices.requests: Too many: 33: must have at most 32 items",
    ]),
    ("spec/devices/requests/0/firstAvailable", [SUB], [
        'spec.devices.requests[0]: Invalid value: null: exactly one of `exactly` or '
        "`firstAvailable` is required, but multiple fields are set",
    ]),
    ("spec/devices/requests/0", {"name": "r", "firstAvailable": [SUB, SUB]}, [
        'spec.devices.requests[0].firstAvailable[1]: Duplicate value: {"name":"s",'
        '"deviceClassName":"gpu","allocationMode":"ExactCount","count":1}',
    ]),
    ("spec/devices/requests/0",
     {"name": "r", "firstAvailable": [{**SUB, "name": f"s{i}"} for i in range(9)]}, [
        "spec.devices.requests[0].firstAvailable: Too many: 9: must have at most 8 items",
    ]),
    (f"{EXACTLY}/selectors", [{}] * 33, [
        f"{AT}.selectors: Too many: 33: must have at most 32 items",
    ]),
    (f"{EXACTLY}/selectors", _selected("device.speed"), [
        f'{AT}.selectors[0].cel.expression: Invalid value: "device.speed": compilation failed: '
        "ERROR: <input>:1:7: undefined field 'speed'\n | device.speed\n | ......^",
    ]),
    (f"{EXACTLY}/selectors", _selected("'a'"), [
        f"{AT}.selectors[0].cel.expression: Invalid value: \"'a'\": must evaluate to bool or the "
        "unknown type, not string",
    ]),
    (f"{EXACTLY}/selectors", _selected("x" * 10241), [
        f"{AT}.selectors[0].cel.expression: Too long: may not be more than 10240 bytes",
    ]),
    (f"{EXACTLY}/selectors", _selected(
        "device.attributes['a'].all(a, " * 3 + "true" + ")" * 3), []),
    (f"{EXACTLY}/selectors", _selected(
        "".join(f"device.attributes['a'].all(a{i}, " for i in range(4)) + "true" + ")" * 4), [
        f"{AT}.selectors[0].cel.expression: Forbidden: too complex, exceeds cost limit",
    ]),
    (f"{EXACTLY}/allocationMode", "All", [
        f"{AT}.count: Invalid value: 1: must not be specified when allocationMode is 'All'",
    ]),
    (f"{EXACTLY}/tolerations", [{"key": "a b", "operator": "Exists", "value": "c"}], [
        f'{AT}.tolerations[0].value: Invalid value: "c": must be empty for operator `Exists`',
        f'{AT}.tolerations[0].key: Invalid value: "a b": name part must consist of alphanumeric '
        "characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. "
        "'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
        "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
    ]),
    (f"{EXACTLY}/tolerations", [{"operator": "Like", "effect": "PreferNoSchedule"}], [
        f'{AT}.tolerations[0].operator: Unsupported value: "Like": supported values: "Equal", '
        '"Exists"',
        f'{AT}.tolerations[0].effect: Unsupported value: "PreferNoSchedule": supported values: '
        '"NoExecute", "NoSchedule", "None"',
    ]),
    ("spec/devices/constraints", [{}], [
        'spec.devices.constraints[0]: Required value: exactly one of "matchAttribute" or '
        '"distinctAttribute" is required, but multiple fields are set',
    ]),
    ("spec/devices/constraints", [{"matchAttribute": "a/b/c"}, {"matchAttribute": "/b"}], [
        'spec.devices.constraints[0].matchAttribute: Invalid value: "a/b/c": must not contain more '
        "than one slash",
        'spec.devices.constraints[1].matchAttribute: Invalid value: "": prefix must not be empty',
    ]),
    ("spec/devices/constraints", [{"matchAttribute": f"a/{'b' * 33}", "requests": ["r", "r"]}], [
        'spec.devices.constraints[0].requests[1]: Duplicate value: "r"',
        "spec.devices.constraints[0].matchAttribute: Too long: may not be more than 32 bytes",
    ]),
    ("spec/devices/constraints", [{"matchAttribute": "a/b", "requests": ["r/s/t"]}], [
        f'spec.devices.constraints[0].requests[0]: Invalid value: "r/s/t": {NOT_REQUEST}',
    ]),
    ("spec/devices/config", [OPAQUE] * 33, [
        "spec.devices.config: Too many: 33: must have at most 32 items",
    ]),
    ("spec/devices/config", [{"opaque": {"driver": "", "parameters": None}}], [
        "spec.devices.config[0].opaque.parameters: Required value",
        "spec.devices.config[0].opaque.driver: Required value",
    ]),
    ("spec/devices/config", [{"opaque": {"driver": "a_b", "parameters": 1}}], [
        'spec.devices.config[0].opaque.parameters: Invalid value: "<value omitted>": must be a '
        "valid JSON object",
        'spec.devices.config[0].opaque.driver: Invalid value: "a_b": an RFC 1123 subdomain must '
        "consist of alphanumeric characters, '-' or '.', and must start and end with an "
        "alphanumeric character (e.g. 'Example.com', regex used for validation is "
        "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
    ]),
    ("spec/devices/config", [{"opaque": {"driver": "a" * 64, "parameters": {"a": "x" * 10240}}}], [
        "spec.devices.config[0].opaque.parameters: Too long: may not be more than 10240 bytes",
        "spec.devices.config[0].opaque.driver: Too long: may not be more than 63 characters",
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "messages"), BROKEN)
def test_broken_claims(path, value, messages):
    """Invalid claims give exact messages."""
    obj = changed(CLAIM, path, value)
    if "allocationMode" not in path:
        obj = defaulted(obj)
    assert write_errors("resourceclaims", obj) == messages


def test_many_expressions_are_refused():
    """The total length of the different expressions of an object is limited."""
    texts_of = [f"device.driver == '{str(i) * 9000}'" for i in range(10, 26)]
    repeated = changed(CLAIM, f"{EXACTLY}/selectors", _selected("device.driver == 'x'") * 32)
    assert write_errors("resourceclaims", repeated) == []
    new = changed(
        CLAIM, f"{EXACTLY}/selectors", [_selected(message[:9000])[0] for message in texts_of]
    )
    messages = write_errors("resourceclaims", new)
    assert len(messages) == 16
    assert all(
        message.endswith("Forbidden: too complex, exceeds cost limit") for message in messages
    )


TEMPLATE = {
    "kind": "ResourceClaimTemplate",
    "apiVersion": "resource.k8s.io/v1",
    "metadata": {"name": "x", "namespace": "n"},
    "spec": {"metadata": {"labels": {"a": "b"}}, "spec": CLAIM["spec"]},
}


def test_templates():
    """A claim template has the rules of a claim, and may set labels and annotations only."""
    assert write_errors("resourceclaimtemplates", TEMPLATE) == []
    new = changed(changed(TEMPLATE, "spec/metadata/name", "x"), "spec/metadata/labels/a", "b c")
    new = changed(new, "spec/spec/devices/requests/0/exactly/deviceClassName", "")
    messages = write_errors("resourceclaimtemplates", new)
    assert [message.partition(": ")[0] for message in messages] == [
        "spec.metadata.labels",
        "spec.metadata.name",
        "spec.spec.devices.requests[0].exactly.deviceClassName",
    ]
    assert messages[1] == "spec.metadata.name: Forbidden: cannot be set"
    (error,) = strategy("resourceclaimtemplates").validate_update(new, TEMPLATE)
    assert (error.path.text, error.detail) == ("spec", "field is immutable")


def test_unchanged_parts_of_classes():
    """Unchanged expressions and configs of a class are not validated again."""
    old = changed(CLASS, "spec/selectors", _selected("device.speed"))
    long = {"opaque": {"driver": "d", "parameters": {"a": "x" * 20000}}}
    old = changed(old, "spec/config", [long])
    old = changed(old, "spec/extendedResourceName", "cpu")
    assert write_errors("deviceclasses", old, old) == []
    messages = write_errors("deviceclasses", old)
    assert [message.partition(": ")[0] for message in messages] == [
        "spec.selectors[0].cel.expression",
        "spec.config[0].opaque.parameters",
        "spec.extendedResourceName",
    ]
    new = changed(old, "spec/selectors", _selected("device.speed") * 2)
    assert len(write_errors("deviceclasses", new, old)) == 2


@pytest.mark.parametrize(("name", "words"), [
    ("example.com/gpu", []),
    ("a.kubernetes.io/gpu", ['must not have "kubernetes.io/" domain']),
    ("requests.example.com/gpu", ['must not have "requests." prefix']),
    ("gpu", ["a name must be a domain-prefixed path, such as 'example.com/my-prop'"]),
])  # fmt: skip
def test_extended_resources_of_classes(name, words):
    """The extended resource name of a class is validated."""
    obj = changed(CLASS, "spec/extendedResourceName", name)
    assert write_errors("deviceclasses", obj) == [
        f'spec.extendedResourceName: Invalid value: "{name}": {text}' for text in words
    ]


def test_disabled_features():
    """Fields of disabled features are dropped, unless the old object has them."""
    derived = [{"name": "a/b", "expression": "1"}]
    new = changed(CLAIM, f"{EXACTLY}/derivedAttributes", derived)
    strategy("resourceclaims").prepare_for_create(new)
    assert new["spec"] == CLAIM["spec"]
    old = changed(CLAIM, f"{EXACTLY}/derivedAttributes", derived)
    new = changed(old)
    strategy("resourceclaims").prepare_for_update(new, old)
    assert new["spec"] == old["spec"]


def test_uppercase_driver_names():
    """Uppercase letters in driver names give a warning."""
    opaque = {"opaque": {"driver": "GPU.example.com", "parameters": {}}}
    new = changed(CLAIM, "spec/devices/config", [opaque])
    assert strategy("resourceclaims").warnings(new, None) == [
        "spec.devices.config[0].opaque.driver: driver names should be lowercase; "
        '"GPU.example.com" contains uppercase characters'
    ]
    assert strategy("resourceclaims").warnings(CLAIM, None) == []


DEVICE = {key: GIVEN[key] for key in ("driver", "pool", "device")} | {"conditions": None}
ALLOCATED = changed(CLAIM, "status", {"allocation": {"devices": {"results": [GIVEN]}}})
READY = {
    "type": "Ready",
    "status": "True",
    "reason": "R",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


def _reported(**fields):
    new = changed(ALLOCATED, "status/devices", [{**DEVICE, **fields}])
    return write_errors("resourceclaims/status", new, ALLOCATED)


DEVICES = [
    ({}, []),
    ({"conditions": [READY], "data": {"a": 1}}, []),
    ({"networkData": {"interfaceName": "eth0", "ips": ["10.9.8.7/24", "2001:db8::5/64"]}}, []),
    ({"device": "e"}, [
        'status.devices[0]: Invalid value: {"Driver":{},"Pool":{},"Device":{},"ShareID":{}}: must '
        "be an allocated device in the claim",
    ]),
    ({"shareID": "a"}, [
        'status.devices[0]: Invalid value: {"Driver":{},"Pool":{},"Device":{},"ShareID":{}}: must '
        "be an allocated device in the claim",
        'status.devices[0].shareID: Invalid value: "a": must be a lowercase UUID in 8-4-4-4-12 '
        "format",
    ]),
    ({"conditions": [{**READY, "type": f"T{i}"} for i in range(9)]}, [
        "status.devices[0].conditions: Too many: 9: must have at most 8 items",
    ]),
    ({"data": None}, ["status.devices[0].data: Required value"]),
    ({"data": [1]}, [
        'status.devices[0].data: Invalid value: "<value omitted>": must be a valid JSON object',
    ]),
    ({"data": {"a": "x" * 10240}}, [
        "status.devices[0].data: Too long: may not be more than 10240 bytes",
    ]),
    ({"networkData": {"interfaceName": "x" * 257, "hardwareAddress": "y" * 129}}, [
        "status.devices[0].networkData.interfaceName: Too long: may not be more than 256 bytes",
        "status.devices[0].networkData.hardwareAddress: Too long: may not be more than 128 bytes",
    ]),
    ({"networkData": {"ips": ["10.9.8.7", "10.9.8.7/33", "2001:DB8::5/64"]}}, [
        f'status.devices[0].networkData.ips[{place}]: Invalid value: "{text}": must be {words}'
        for place, text, words in (
            (0, "10.9.8.7",
             "a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"),
            (1, "10.9.8.7/33",
             "a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"),
            (2, "2001:DB8::5/64", 'in canonical form ("2001:db8::5/64")'),
        )
    ]),
    ({"networkData": {"ips": ["10.9.8.7/24"] * 2}}, [
        'status.devices[0].networkData.ips[1]: Duplicate value: "10.9.8.7/24"',
    ]),
    ({"networkData": {"ips": [f"10.9.8.{i}/24" for i in range(17)]}}, [
        "status.devices[0].networkData.ips: Too many: 17: must have at most 16 items",
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "messages"), DEVICES)
def test_device_statuses(fields, messages):
    """Device statuses of a claim are validated."""
    assert _reported(**fields) == messages


def _allocated(**fields):
    allocation = {"devices": {"results": [{**GIVEN, **fields}]}}
    new = changed(CLAIM, "status", {"allocation": allocation})
    return write_errors("resourceclaims/status", new, CLAIM)


RESULTS = [
    ({}, []),
    ({"shareID": "01234567-89ab-cdef-0123-456789abcdef"}, []),
    ({"driver": "", "pool": "", "device": "d"}, [
        "status.allocation.devices.results[0].driver: Required value",
        "status.allocation.devices.results[0].pool: Required value",
    ]),
    ({"pool": "a//b"}, [
        'status.allocation.devices.results[0].pool: Invalid value: "a//b": segment 1: must not be '
        "empty",
    ]),
    ({"request": "r/s"}, [
        f'status.allocation.devices.results[0].request: Invalid value: "r/s": {NOT_REQUEST}',
    ]),
    ({"bindingConditions": ["a"]}, [
        "status.allocation.devices.results[0].bindingFailureConditions: Invalid value: null: "
        "bindingFailureConditions are required to use bindingConditions",
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "messages"), RESULTS)
def test_allocations(fields, messages):
    """Allocations of a claim are validated."""
    assert _allocated(**fields) == messages


def test_consumers():
    """Consumers of a claim are unique, and cannot be added while the claim is being deleted."""
    new = changed(ALLOCATED, "status/reservedFor", [USER, USER])
    assert write_errors("resourceclaims/status", new, ALLOCATED) == [
        'status.reservedFor[1]: Duplicate value: {"resource":"pods","name":"p","uid":"1"}'
    ]
    consumers = [{**USER, "uid": str(i)} for i in range(257)]
    new = changed(ALLOCATED, "status/reservedFor", consumers)
    assert write_errors("resourceclaims/status", new, ALLOCATED) == [
        "status.reservedFor: Too many: 257: must have at most 256 items"
    ]
    going = changed(ALLOCATED, "metadata/deletionTimestamp", "2026-01-01T00:00:00Z")
    new = changed(going, "status/reservedFor", [USER])
    assert write_errors("resourceclaims/status", new, going) == [
        "status.reservedFor: Forbidden: new entries may not be added while `deallocationRequested` "
        "or `deletionTimestamp` are set"
    ]


def test_device_statuses_of_released_devices():
    """Device statuses are dropped with the allocation of their devices."""
    old = changed(ALLOCATED, "status/devices", [DEVICE])
    new = changed(old, "status/allocation", GONE)
    strategy("resourceclaims/status").prepare_for_update(new, old)
    assert new["status"] == {}
    assert write_errors("resourceclaims/status", new, old) == []
