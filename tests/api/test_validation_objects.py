"""Validation of services, config maps, secrets, namespaces, events, nodes and leases, one invalid
field at a time."""

import base64

import pytest

from kapiserver.api import names
from tests.objects import GONE, SERVICE, changed, defaulted, strategy, texts

LABEL = names.dns1123_label("_")[0]
KEY = names.config_key(" ")[0]
IP = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"

SERVICES = [
    ("", GONE, []),
    ("spec/ports", [], ["spec.ports: Required value"]),
    (
        "spec/ports",
        [{"name": "a", "port": 80}, {"name": "a", "port": 81}],
        ['spec.ports[1].name: Duplicate value: "a"'],
    ),
    (
        "spec/ports",
        [{"name": "a", "port": 80}, {"port": 81}],
        ["spec.ports[1].name: Required value"],
    ),
    (
        "spec/ports/0/nodePort",
        30000,
        ["spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"],
    ),
    (
        "spec/ports/0/targetPort",
        "UP",
        [
            'spec.ports[0].targetPort: Invalid value: "UP": must contain only alpha-numeric '
            "characters (a-z, 0-9), and hyphens (-)",
            'spec.ports[0].targetPort: Invalid value: "UP": must contain at least one letter (a-z)',
        ],
    ),
    (
        "spec/type",
        "Odd",
        [
            'spec.type: Unsupported value: "Odd": supported values: "ClusterIP", "ExternalName", '
            '"LoadBalancer", "NodePort"'
        ],
    ),
    ("spec/type", "ExternalName", ["spec.externalName: Required value"]),
    (
        "spec/clusterIP",
        "10.0.0",
        [f'spec.clusterIPs[0]: Invalid value: "10.0.0": {IP}'],
    ),
    (
        "spec/externalIPs",
        ["127.0.0.1"],
        [
            'spec.externalIPs[0]: Invalid value: "127.0.0.1": may not be in the loopback range '
            "(127.0.0.0/8, ::1/128)"
        ],
    ),
    (
        "spec/externalTrafficPolicy",
        "Local",
        [
            'spec.externalTrafficPolicy: Invalid value: "Local": may only be set for '
            "externally-accessible services"
        ],
    ),
    (
        "spec/sessionAffinity",
        "Cookie",
        ['spec.sessionAffinity: Unsupported value: "Cookie": supported values: "ClientIP", "None"'],
    ),
]


@pytest.mark.parametrize(("path", "value", "messages"), SERVICES)
def test_services(path, value, messages):
    """Services are validated."""
    kind_strategy = strategy("services")
    obj = defaulted(changed(SERVICE, path, value))
    kind_strategy.prepare_for_create(obj)
    assert texts(kind_strategy.validate(obj)) == messages


def test_immutable_cluster_ip():
    """The cluster IP is immutable."""
    old = defaulted(changed(SERVICE, "spec/clusterIP", "10.0.0.1"))
    old["spec"]["clusterIPs"] = ["10.0.0.1"]
    new = changed(old, "spec/clusterIP", "10.0.0.2")
    strategy("services").prepare_for_update(new, old)
    assert texts(strategy("services").validate_update(new, old)) == [
        'spec.clusterIPs[0]: Invalid value: ["10.0.0.2"]: may not change once set'
    ]


def encoded(size):
    return base64.b64encode(b"x" * size).decode()


CONFIG_MAPS = [
    ({"data": {"a": "b"}, "binaryData": {"c": "AA=="}}, []),
    ({"data": {" ": "b"}}, [f'data[ ]: Invalid value: " ": {KEY}']),
    (
        {"data": {"a": "b"}, "binaryData": {"a": "AA=="}},
        ['data[a]: Invalid value: "a": duplicate of key present in binaryData'],
    ),
    ({"data": {"a": "x" * 2**20}}, []),
    (
        {"data": {"a": "x" * 2**20}, "binaryData": {"b": "AA=="}},
        ["[]: Too long: may not be more than 1048576 bytes"],
    ),
]


@pytest.mark.parametrize(("obj", "messages"), CONFIG_MAPS)
def test_config_maps(obj, messages):
    """Keys must be file names, and the size is limited to 1 MiB."""
    assert texts(strategy("configmaps").validate(obj)) == messages


FROZEN = "Forbidden: field is immutable when `immutable` is set"


def test_immutable_config_map():
    """An immutable config map cannot be changed or made mutable."""
    old = {"data": {"a": "b"}, "immutable": True}
    kind_strategy = strategy("configmaps")
    assert texts(kind_strategy.validate_update(old, old)) == []
    assert texts(kind_strategy.validate_update({"data": {"a": "c"}}, old)) == [
        f"immutable: {FROZEN}",
        f"data: {FROZEN}",
    ]


SECRETS = [
    ({"type": "Opaque", "data": {"a": encoded(2**20)}}, []),
    (
        {"type": "Opaque", "data": {"a": encoded(2**20 + 1)}},
        ["data: Too long: may not be more than 1048576 bytes"],
    ),
    (
        {"type": "kubernetes.io/tls"},
        ["data[tls.crt]: Required value", "data[tls.key]: Required value"],
    ),
    ({"type": "kubernetes.io/tls", "data": {"tls.crt": "", "tls.key": ""}}, []),
    ({"type": "kubernetes.io/ssh-auth"}, ["data[ssh-privatekey]: Required value"]),
    (
        {"type": "kubernetes.io/basic-auth"},
        ["data[username]: Required value", "data[password]: Required value"],
    ),
    (
        {"type": "kubernetes.io/service-account-token"},
        ["metadata.annotations[kubernetes.io/service-account.name]: Required value"],
    ),
    (
        {"type": "kubernetes.io/dockerconfigjson"},
        ["data[.dockerconfigjson]: Required value"],
    ),
    (
        {"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": "e30="}},
        [],
    ),
    ({"type": "my/own"}, []),
]


@pytest.mark.parametrize(("obj", "messages"), SECRETS)
def test_secrets(obj, messages):
    """Each well-known type of secret has required keys."""
    assert texts(strategy("secrets").validate(obj)) == messages


def test_bad_docker_config():
    """The message about invalid JSON does not contain the data."""
    obj = {"type": "kubernetes.io/dockercfg", "data": {".dockercfg": encoded(3)}}
    (error,) = strategy("secrets").validate(obj)
    assert str(error).startswith('data[.dockercfg]: Invalid value: "<secret contents redacted>": ')


def test_immutable_secret_type():
    """The type of a secret is immutable."""
    assert texts(strategy("secrets").validate_update({"type": "b"}, {"type": "a"})) == [
        'type: Invalid value: "b": field is immutable'
    ]


def test_namespace_phase():
    """A namespace is Terminating if and only if it is being deleted."""
    kind_strategy = strategy("namespaces/status")
    wrong = {"metadata": {}, "status": {"phase": "Terminating"}}
    assert texts(kind_strategy.validate_update(wrong, wrong)) == [
        "status.Phase: Invalid value: \"Terminating\": may only be 'Active' if "
        "`deletionTimestamp` is empty"
    ]


EVENTS = [
    ({"metadata": {"namespace": "n"}, "involvedObject": {"namespace": "n"}}, []),
    ({"metadata": {"namespace": "default"}, "involvedObject": {}}, []),
    (
        {"metadata": {"namespace": "n"}, "involvedObject": {"namespace": "m"}},
        ['involvedObject.namespace: Invalid value: "m": does not match event.namespace'],
    ),
    (
        {
            "metadata": {"namespace": "default"},
            "involvedObject": {},
            "eventTime": "2026-01-01T00:00:00.000000Z",
            "reportingComponent": "c",
            "reportingInstance": "i",
            "action": "a",
        },
        ["reason: Required value"],
    ),
    (
        {
            "metadata": {"namespace": "n"},
            "involvedObject": {},
            "eventTime": "2026-01-01T00:00:00.000000Z",
            "reportingComponent": "c",
            "reportingInstance": "i" * 129,
            "action": "a",
            "reason": "r",
        },
        [
            'involvedObject.namespace: Invalid value: "": does not match event.namespace',
            'reportingInstance: Invalid value: "": can have at most 128 characters',
        ],
    ),
    (
        {
            "metadata": {"namespace": "n"},
            "involvedObject": {"namespace": "m"},
            "eventTime": "2026-01-01T00:00:00.000000Z",
            "reportingComponent": "c",
            "reportingInstance": "i",
            "action": "a",
            "reason": "r",
        },
        [],
    ),
]


@pytest.mark.parametrize(("obj", "messages"), EVENTS)
def test_events(obj, messages):
    """An event is in the namespace of its object, unless it has an eventTime."""
    assert texts(strategy("events").validate(obj)) == messages


NODES = [
    ({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}, []),
    (
        {"spec": {"taints": [{"key": "a", "effect": "Never"}]}},
        [
            'metadata.taints[0].effect: Unsupported value: "Never": supported values: '
            '"NoSchedule", "PreferNoSchedule", "NoExecute"'
        ],
    ),
    (
        {"status": {"capacity": {"cpu": "-1"}}},
        ['status.capacity.cpu: Invalid value: "-1": must be greater than or equal to 0'],
    ),
]


@pytest.mark.parametrize(("obj", "messages"), NODES)
def test_nodes(obj, messages):
    """Taints and capacities of nodes are validated."""
    assert texts(strategy("nodes").validate(obj)) == messages


LEASES = [
    ({"leaseDurationSeconds": 5, "leaseTransitions": 0}, []),
    (
        {"leaseDurationSeconds": 0},
        ["spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"],
    ),
    (
        {"leaseTransitions": -1},
        ["spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0"],
    ),
]


@pytest.mark.parametrize(("spec", "messages"), LEASES)
def test_leases(spec, messages):
    """The duration of a lease must be positive."""
    assert texts(strategy("leases").validate({"spec": spec})) == messages
