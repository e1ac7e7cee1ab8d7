"""Validation of less common fields of nodes, namespaces, events, volumes, claims and quotas: exact
causes, in order."""

import base64

import pytest

from kapiserver.api import names
from kapiserver.api.events.validation import validate_event_update, validate_new_event
from tests.objects import GONE, changed, strategy, texts

LABEL = names.dns1123_label("_")[0]
NODE = {
    "kind": "Node",
    "apiVersion": "v1",
    "metadata": {"name": "x"},
    "spec": {},
    "status": {},
}
ONE_EACH = "may specify no more than one CIDR for each IP family"
TAINT = {"key": "a", "effect": "NoSchedule"}
NEW_NODES = [
    ("spec/podCIDRs", ["10.0.0.0/24", "fd00::/64"], []),
    (
        "spec/podCIDRs",
        ["10.0.0.0/24", "10.0.1.0/24"],
        [f'spec.podCIDRs: Invalid value: ["10.0.0.0/24","10.0.1.0/24"]: {ONE_EACH}'],
    ),
    (
        "spec/podCIDRs",
        ["10.0.0.0/24", "x"],
        [
            'spec.podCIDRs[1]: Invalid value: "x": must be a valid CIDR value, '
            "(e.g. 10.9.8.0/24 or 2001:db8::/64)",
            "spec.podCIDRs: Internal error: invalid PodCIDRs. failed to check with dual stack "
            "with error:invalid CIDR[1]: <nil> (invalid CIDR address: x)",
            f'spec.podCIDRs: Invalid value: ["10.0.0.0/24","x"]: {ONE_EACH}',
        ],
    ),
    (
        "status/nodeInfo",
        {"swap": {"capacity": 0}},
        ["metadata.nodeSwapStatus.capacity: Invalid value: 0: must be greater than zero"],
    ),
    (
        "spec/taints",
        [TAINT, TAINT],
        [
            'metadata.taints[1]: Duplicate value: {"Key":"a","Value":"","Effect":"NoSchedule",'
            '"TimeAdded":null}: taints must be unique by key and effect pair'
        ],
    ),
]


@pytest.mark.parametrize(("path", "value", "messages"), NEW_NODES)
def test_new_nodes(path, value, messages):
    """A node has at most one pod CIDR for each IP family, and unique taints."""
    assert texts(strategy("nodes").validate(changed(NODE, path, value))) == messages


GIVEN = changed(
    NODE,
    "spec",
    {"podCIDRs": ["10.0.0.0/24", "fd00::/64"], "providerID": "p", "externalID": "e"},
)
MOVED = 'spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid'
SOURCE = "spec.configSource"
CHANGED_NODES = [
    (NODE, "spec", GIVEN["spec"] | {"externalID": ""}, []),
    (GIVEN, "spec/podCIDRs", ["10.0.1.0/24", "fd01::/64"], [MOVED, MOVED]),
    (GIVEN, "spec/podCIDRs", ["10.0.0.0/24"], [MOVED]),
    (
        GIVEN,
        "spec/providerID",
        "q",
        ["spec.providerID: Invalid value: null: field cannot be modified once set"],
    ),
    (GIVEN, "spec/externalID", "f", ["spec.externalID: Forbidden: may not be updated"]),
    (
        NODE,
        "status/addresses",
        [{"type": "InternalIP", "address": "10.0.0.1"}] * 2,
        ['status.addresses[1]: Duplicate value: {"Type":"InternalIP","Address":"10.0.0.1"}'],
    ),
    (
        NODE,
        "spec/configSource",
        {},
        [
            f'{SOURCE}: Invalid value: {{"ConfigMap":null}}: exactly one reference subfield must '
            "be non-nil"
        ],
    ),
    (
        NODE,
        "spec/configSource",
        {"configMap": {"uid": "u", "resourceVersion": "1", "namespace": "_", "name": ""}},
        [
            f"{SOURCE}.configMap.uid: Forbidden: uid must not be set in spec",
            f"{SOURCE}.configMap.resourceVersion: Forbidden: resourceVersion must not be set in "
            "spec",
            f'{SOURCE}.configMap.namespace: Invalid value: "_": {LABEL}',
            f"{SOURCE}.configMap.name: Required value: name must be set",
            f"{SOURCE}.configMap.kubeletConfigKey: Required value: kubeletConfigKey must be set",
        ],
    ),
    (
        NODE,
        "status/config",
        {"active": {"configMap": {"namespace": "n", "name": "c", "kubeletConfigKey": "k"}}},
        [
            "status.config.active.configMap.uid: Required value: uid must be set in status",
            "status.config.active.configMap.resourceVersion: Required value: resourceVersion must "
            "be set in status",
        ],
    ),
]


@pytest.mark.parametrize(("old", "path", "value", "messages"), CHANGED_NODES)
def test_changed_nodes(old, path, value, messages):
    """Pod CIDRs and the provider ID of a node are immutable once set."""
    errors = strategy("nodes").validate_update(changed(old, path, value), old)
    assert texts(errors) == messages


def test_kubelet_configuration():
    """Dynamic kubelet configuration is dropped from new nodes and kept on old ones."""
    nodes, source = strategy("nodes"), {"configMap": {"name": "c"}}
    node = changed(changed(NODE, "spec/configSource", source), "status/config", {"error": "e"})
    new = changed(node)
    nodes.prepare_for_create(new)
    assert new == NODE
    new = changed(node)
    nodes.prepare_for_update(new, NODE)
    assert new["spec"] == {}
    new = changed(node)
    nodes.prepare_for_update(new, node)
    assert new["spec"] == {"configSource": source}
    new = changed(node)
    strategy("nodes/status").prepare_for_update(new, NODE)
    assert "config" not in new["status"]


UNKNOWN = "name is neither a standard finalizer name nor is it fully qualified"


def test_finalizers_of_namespaces():
    """Finalizers of a namespace must be standard or qualified names."""
    old = {"metadata": {"name": "x"}, "spec": {"finalizers": ["kubernetes"]}, "status": {}}
    new = changed(old, "spec/finalizers", ["kubernetes", "mine"])
    assert texts(strategy("namespaces/finalize").validate_update(new, old)) == [
        f'spec.finalizers[1]: Invalid value: "mine": {UNKNOWN}'
    ]


EVENT = {
    "kind": "Event",
    "apiVersion": "v1",
    "metadata": {"name": "e", "namespace": "n"},
    "involvedObject": {"namespace": "n"},
    "eventTime": "2026-01-01T00:00:00.000000Z",
    "reportingComponent": "c",
    "reportingInstance": "i",
    "action": "a",
    "reason": "r",
    "type": "Normal",
}
FIXED = "field is immutable"
EVENTS = [
    # field, value, causes on create, causes on update
    ("type", "Odd", ['type: Invalid value: "": has invalid value: Odd'], ['type: "Odd"']),
    (
        "series",
        {"count": 1},
        [
            'series.count: Invalid value: "": should be at least 2',
            "series.lastObservedTime: Required value",
        ],
        [
            'series.count: Invalid value: "": should be at least 2',
            "series.lastObservedTime: Required value",
        ],
    ),
    ("series", {"count": 2, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}, [], []),
    ("count", 2, ['count: Invalid value: "": needs to be unset'], ["count: 2"]),
    ("reason", "q", [], ['reason: "q"', 'reason: "q"']),
    (
        "related",
        {"name": "z"},
        [],
        [
            'related: {"Kind":"","Namespace":"","Name":"z","UID":"","APIVersion":"",'
            '"ResourceVersion":"","FieldPath":""}'
        ],
    ),
]


@pytest.mark.parametrize(("name", "value", "new", "update"), EVENTS)
def test_events_of_the_events_group(name, value, new, update):
    """Events of events.k8s.io need an eventTime, and only their series is mutable."""
    event = changed(EVENT, name, value)
    assert texts(validate_new_event(event)) == new
    immutable_fields = [
        text if "Invalid value" in text or "Required" in text else _fixed(text) for text in update
    ]
    assert texts(validate_event_update(event, EVENT)) == immutable_fields


def _fixed(text):
    path, value = text.split(": ", 1)
    return f"{path}: Invalid value: {value}: {FIXED}"


def test_reporters_of_events():
    """Messages use the field name of the request's group for the reporting controller."""
    event = changed(EVENT, "reportingComponent", "")
    paths = {str(error.path) for error in strategy("events").validate(event)}
    assert paths == {"reportingComponent"}
    assert {str(error.path) for error in validate_new_event(event)} == {"reportingController"}


def test_names_of_events():
    """Core events accept any name and finalizer, events of events.k8s.io do not."""
    event = changed(changed(EVENT, "metadata/name", "A_b"), "metadata/finalizers", ["mine"])
    assert strategy("events").check_name("A_b") == []
    assert strategy("events").check_finalizers(event["metadata"]["finalizers"]) == []


DOCKER = [
    (b"{}", []),
    (b"null", []),
    (b"x", ["invalid character 'x' looking for beginning of value"]),
    (b"{", ["unexpected end of JSON input"]),
    (b"foo", ["invalid character 'o' in literal false (expecting 'a')"]),
    (b'{"a":tru}', ["invalid character '}' in literal true (expecting 'e')"]),
    (b'{"a"x}', ["invalid character 'x' after object key"]),
    (b'{"a":1 x}', ["invalid character 'x' after object key:value pair"]),
    (b"{} 1", ["invalid character '1' after top-level value"]),
    (b"{a}", ["invalid character 'a' looking for beginning of object key string"]),
    (
        b"[1]",
        ["json: cannot unmarshal array into Go value of type map[string]interface {}"],
    ),
]


@pytest.mark.parametrize(("text", "details"), DOCKER)
def test_docker_configurations(text, details):
    """Invalid JSON gives the messages of Go's decoder."""
    data = {".dockerconfigjson": base64.b64encode(text).decode()}
    errors = strategy("secrets").validate({"type": "kubernetes.io/dockerconfigjson", "data": data})
    assert [error.detail for error in errors] == details


def test_mountable_secrets():
    """A service account gives a warning when it starts to restrict mountable secrets."""
    key = "kubernetes.io/enforce-mountable-secrets"
    account = {"metadata": {"name": "x", "annotations": {key: "true"}}}
    warnings = strategy("serviceaccounts").warnings
    assert warnings(account, account) == []
    assert warnings(account, None) == [
        f"metadata.annotations[{key}]: deprecated in v1.32+; prefer separate namespaces to "
        "isolate access to mounted secrets"
    ]


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


def affinity(*keys):
    requirements = [{"key": key, "operator": "In", "values": ["a"]} for key in keys]
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": requirements}]}}


BETA, STABLE = "failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"
AFFINITIES = [
    (None, affinity("a"), True),
    (affinity("a"), affinity("a"), True),
    (affinity("a"), affinity("b"), False),
    (affinity("a"), GONE, False),
    (affinity("a", BETA), affinity("a", STABLE), True),
    (affinity("a", STABLE), affinity("a", BETA), False),
    (affinity("a", BETA), affinity("b", STABLE), False),
]


@pytest.mark.parametrize(("old", "new", "is_valid"), AFFINITIES)
def test_affinity_of_volumes(old, new, is_valid):
    """The node affinity of a volume is immutable, except for replacing beta labels."""
    old_volume = changed(VOLUME, "spec/nodeAffinity", old)
    errors = strategy("persistentvolumes").validate_update(
        changed(old_volume, "spec/nodeAffinity", new), old_volume
    )
    assert [(str(error.path), error.detail) for error in errors] == (
        []
        if is_valid
        else [("nodeAffinity", f"{FIXED}, except for updating from beta label to GA")]
    )


def test_mount_options():
    """Some volume types accept no mount options."""
    options = "volume.beta.kubernetes.io/mount-options"
    volume = changed(VOLUME, "metadata/annotations", {options: "ro"})
    assert texts(strategy("persistentvolumes").validate(volume)) == [
        f"metadata.annotations.{options}: Forbidden: may not specify mount options for this "
        "volume type"
    ]
    served = changed(changed(volume, "spec/hostPath"), "spec/nfs", {"server": "s", "path": "/a"})
    assert strategy("persistentvolumes").validate(served) == []


def selecting(key, value):
    return {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}


CLAIM = {
    "kind": "PersistentVolumeClaim",
    "apiVersion": "v1",
    "metadata": {"name": "c", "namespace": "n"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "selector": selecting("a", "b"),
    },
    "status": {},
}
BUDGET = {"metadata": {"name": "b"}, "spec": {"selector": selecting("a", "b")}}
POLICY = {"metadata": {"name": "p"}, "spec": {"podSelector": selecting("a", "b")}}
SELECTORS = [
    ("persistentvolumeclaims", CLAIM, "selector"),
    ("poddisruptionbudgets", BUDGET, "selector"),
    ("networkpolicies", POLICY, "podSelector"),
]


@pytest.mark.parametrize(("name", "obj", "part"), SELECTORS)
def test_selectors_of_old_servers(name, obj, part):
    """Invalid values of old selectors may stay, invalid keys may not."""
    path = f"spec.{part}.matchExpressions[0]"
    value = f'{path}.values[0]: Invalid value: "-": {names.label_value("-")[0]}'
    key = f'{path}.key: Invalid value: "-": {names.qualified_name("-")[0]}'
    bad = changed(obj, f"spec/{part}", selecting("a", "-"))
    kind_strategy = strategy(name)
    assert texts(kind_strategy.validate(bad)) == [value]
    assert value in texts(kind_strategy.validate_update(bad, obj))
    assert texts(kind_strategy.validate_update(bad, bad)) == []
    worse = changed(obj, f"spec/{part}", selecting("-", "-"))
    assert key in texts(kind_strategy.validate_update(worse, bad))


def test_sides_of_old_policies():
    """An invalid value in the old podSelector is accepted in peers of a network policy."""
    old = changed(POLICY, "spec/podSelector", selecting("a", "-"))
    new = changed(old, "spec/ingress", [{"from": [{"podSelector": selecting("a", "-")}]}])
    policies = strategy("networkpolicies")
    assert texts(policies.validate_update(new, old)) == []
    assert len(policies.validate(new)) == 2
