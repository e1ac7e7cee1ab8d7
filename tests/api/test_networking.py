"""Validation, defaults and columns of the networking group."""

from datetime import UTC, datetime

import pytest

from kapiserver.api import names
from tests.objects import GONE, SCHEME, changed, defaulted, resource, strategy, texts, write_errors

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LABEL = names.dns1123_label("_")[0]
SUBDOMAIN = names.dns1123_subdomain("_")[0]
WILDCARD = names.wildcard_subdomain("_")[0]
BACKEND = {"service": {"name": "s", "port": {"number": 80}}}
PATH = {"path": "/", "pathType": "Prefix", "backend": BACKEND}


def _object(kind, **spec):
    return {
        "kind": kind,
        "apiVersion": "networking.k8s.io/v1",
        "metadata": {"name": "x", "namespace": "n"},
        "spec": spec,
    }


OBJECTS = {
    "ingresses": {
        **_object("Ingress", rules=[{"host": "a.example.com", "http": {"paths": [PATH]}}]),
        "status": {"loadBalancer": {}},
    },
    "ingressclasses": _object("IngressClass", controller="example.com/c"),
    "networkpolicies": _object("NetworkPolicy", podSelector={}),
    "ipaddresses": _object("IPAddress", parentRef={"resource": "services", "name": "s"}),
    "servicecidrs": {**_object("ServiceCIDR", cidrs=["10.0.0.0/16"]), "status": {}},
}
ING, CLASS, NP = "ingresses", "ingressclasses", "networkpolicies"
HTTP = "spec/rules/0/http/paths/0"
AT = "spec.rules[0].http.paths[0]"
IS_IP = "must be a DNS name, not an IP address"
PORTS = "spec.ingress[0].ports[0]"
RANGE = "must be between 1 and 65535, inclusive"


def port(**fields):
    """Return the rules of a policy with one port."""
    return [{"ports": [fields]}]


def peer(**fields):
    """Return the rules of a policy with one peer."""
    return [{"from": [fields]}]


CASES = [
    *((name, "", GONE, []) for name in OBJECTS),
    (
        ING,
        "spec/rules",
        [],
        ["spec: Invalid value: []: either `defaultBackend` or `rules` must be specified"],
    ),
    (
        ING,
        "spec/rules/0/host",
        "10.0.0.1",
        [f'spec.rules[0].host: Invalid value: "10.0.0.1": {IS_IP}'],
    ),
    (ING, "spec/rules/0/host", "*.example.com", []),
    (
        ING,
        "spec/rules/0/host",
        "a.*.com",
        [f'spec.rules[0].host: Invalid value: "a.*.com": {WILDCARD}'],
    ),
    (ING, "spec/rules/0/http/paths", [], ["spec.rules[0].http.paths: Required value"]),
    (
        ING,
        f"{HTTP}/pathType",
        GONE,
        [f"{AT}.pathType: Required value: pathType must be specified"],
    ),
    (
        ING,
        f"{HTTP}/pathType",
        "Odd",
        [
            f'{AT}.pathType: Unsupported value: "Odd": supported values: "Exact", '
            '"ImplementationSpecific", "Prefix"'
        ],
    ),
    (ING, f"{HTTP}/path", "a", [f'{AT}.path: Invalid value: "a": must be an absolute path']),
    (
        ING,
        f"{HTTP}/path",
        "/a//b/..",
        [
            f"{AT}.path: Invalid value: \"/a//b/..\": must not contain '//'",
            f"{AT}.path: Invalid value: \"/a//b/..\": cannot end with '/..'",
        ],
    ),
    (ING, HTTP, {"pathType": "ImplementationSpecific", "backend": BACKEND}, []),
    (
        ING,
        f"{HTTP}/backend",
        {},
        [f'{AT}.backend: Invalid value: "": resource or service backend is required'],
    ),
    (
        ING,
        f"{HTTP}/backend",
        {**BACKEND, "resource": {"kind": "k", "name": "n"}},
        [f'{AT}.backend: Invalid value: "": cannot set both resource and service backends'],
    ),
    (
        ING,
        f"{HTTP}/backend/service/port",
        {},
        [f"{AT}.backend: Required value: port name or number is required"],
    ),
    (
        ING,
        f"{HTTP}/backend/service/port",
        {"name": "http", "number": 80},
        [f'{AT}.backend: Invalid value: "": cannot set both port name & port number'],
    ),
    (
        ING,
        f"{HTTP}/backend/service/port",
        {"number": 70000},
        [f"{AT}.backend.service.port.number: Invalid value: 70000: {RANGE}"],
    ),
    (
        ING,
        "spec/defaultBackend",
        {"resource": {"apiGroup": "_", "name": "n"}},
        [
            f'spec.defaultBackend.resource.apiGroup: Invalid value: "_": {SUBDOMAIN}',
            "spec.defaultBackend.resource.kind: Required value",
        ],
    ),
    (
        ING,
        "spec/tls",
        [{"hosts": ["_"], "secretName": "_"}],
        [
            f'spec.tls[0].hosts[0]: Invalid value: "_": {SUBDOMAIN}',
            f'spec.tls[0].secretName: Invalid value: "_": {SUBDOMAIN}',
        ],
    ),
    (
        ING,
        "spec/ingressClassName",
        "_",
        [f'spec.ingressClassName: Invalid value: "_": {SUBDOMAIN}'],
    ),
    (CLASS, "spec/controller", "", ["spec.controller: Required value"]),
    (
        CLASS,
        "spec/controller",
        "c",
        [
            'spec.controller: Invalid value: "c": must be a domain-prefixed path (such as '
            '"acme.io/foo")'
        ],
    ),
    (
        CLASS,
        "spec/controller",
        "example.com/" + "c" * 250,
        ["spec.controller: Too long: may not be more than 250 bytes"],
    ),
    (
        CLASS,
        "spec/parameters",
        {"kind": "k", "name": "n", "namespace": "n"},
        ["spec.parameters.namespace: Forbidden: `parameters.scope` is set to 'Cluster'"],
    ),
    (
        CLASS,
        "spec/parameters",
        {"kind": "k", "name": "n", "scope": "Namespace"},
        ["spec.parameters.namespace: Required value: `parameters.scope` is set to 'Namespace'"],
    ),
    (
        CLASS,
        "spec/parameters",
        {"name": "n", "scope": "Odd"},
        [
            'spec.parameters.scope: Unsupported value: "Odd": supported values: "Cluster", '
            '"Namespace"',
            "spec.parameters.kind: Required value",
        ],
    ),
    (NP, "spec/ingress", port(port=80, endPort=90), []),
    (
        NP,
        "spec/ingress",
        port(protocol="ICMP"),
        [f'{PORTS}.protocol: Unsupported value: "ICMP": supported values: "TCP", "UDP", "SCTP"'],
    ),
    (
        NP,
        "spec/ingress",
        port(port=0),
        [f"{PORTS}.port: Invalid value: 0: {RANGE}"],
    ),
    (
        NP,
        "spec/ingress",
        port(port=80, endPort=70),
        [f"{PORTS}.endPort: Invalid value: 70: must be greater than or equal to `port`"],
    ),
    (
        NP,
        "spec/ingress",
        port(port="http", endPort=90),
        [f"{PORTS}.endPort: Invalid value: 90: may not be specified when `port` is non-numeric"],
    ),
    (
        NP,
        "spec/ingress",
        port(endPort=90),
        [f"{PORTS}.endPort: Invalid value: 90: may not be specified when `port` is not specified"],
    ),
    (NP, "spec/ingress", peer(), ["spec.ingress[0].from[0]: Required value: must specify a peer"]),
    (NP, "spec/ingress", peer(podSelector={}, namespaceSelector={}), []),
    (
        NP,
        "spec/ingress",
        peer(podSelector={}, ipBlock={"cidr": "10.0.0.0/8"}),
        ["spec.ingress[0].from[0]: Forbidden: may not specify both ipBlock and another peer"],
    ),
    (
        NP,
        "spec/egress",
        [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.0.0.0/8", "x"]}}]}],
        [
            'spec.egress[0].to[0].ipBlock.except[0]: Invalid value: "10.0.0.0/8": must be a '
            "strict subset of `cidr`",
            'spec.egress[0].to[0].ipBlock.except[1]: Invalid value: "x": must be a valid CIDR '
            "value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
        ],
    ),
    (
        NP,
        "spec/egress",
        [{"to": [{"ipBlock": {}}]}],
        ["spec.egress[0].to[0].ipBlock.cidr: Required value"],
    ),
    (
        NP,
        "spec",
        {"podSelector": {}, "egress": [{"to": [{"ipBlock": {}}, {}]}], "policyTypes": ["Egress"]},
        [
            "spec.egress[0].to[1]: Required value: must specify a peer",
            "spec.egress[0].to[0].ipBlock.cidr: Required value",
        ],
    ),
    (
        NP,
        "spec/policyTypes",
        ["Odd"],
        ['spec.policyTypes[0]: Unsupported value: "Odd": supported values: "Ingress", "Egress"'],
    ),
    (
        NP,
        "spec/policyTypes",
        ["Ingress", "Egress", "Egress"],
        [
            'spec.policyTypes: Invalid value: ["Ingress","Egress","Egress"]: may not specify more '
            "than two policyTypes"
        ],
    ),
    ("ipaddresses", "spec", {}, ["spec.parentRef: Required value"]),
    (
        "ipaddresses",
        "spec/parentRef",
        {"group": "_", "name": "a/b"},
        [
            f'spec.parentRef.group: Invalid value: "_": {SUBDOMAIN}',
            "spec.parentRef.name: Invalid value: \"a/b\": may not contain '/'",
            "spec.parentRef.resource: Required value",
        ],
    ),
    (
        "servicecidrs",
        "spec/cidrs",
        [],
        ["spec.cidrs: Required value: at least one CIDR required"],
    ),
    ("servicecidrs", "spec/cidrs", ["10.0.0.0/16", "2001:db8::/64"], []),
    (
        "servicecidrs",
        "spec/cidrs",
        ["10.0.0.0/16", "10.1.0.0/16"],
        [
            'spec.cidrs: Invalid value: ["10.0.0.0/16","10.1.0.0/16"]: may specify no '
            "more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
        ],
    ),
    (
        "servicecidrs",
        "spec/cidrs",
        ["10.0.0.1/16"],
        [
            'spec.cidrs[0]: Invalid value: "10.0.0.1/16": must not have bits set beyond the '
            "prefix length"
        ],
    ),
]


@pytest.mark.parametrize(("name", "path", "value", "messages"), CASES)
def test_rules(name, path, value, messages):
    """Each invalid field gives exactly its messages."""
    obj = defaulted(changed(OBJECTS[name], path, value))
    strategy(name).prepare_for_create(obj)
    assert write_errors(name, obj) == messages


IMMUTABLE = "field is immutable"
UPDATES = [
    (
        CLASS,
        "spec/controller",
        "example.com/d",
        [f'spec.controller: Invalid value: "example.com/d": {IMMUTABLE}'],
    ),
    (
        "ipaddresses",
        "spec/parentRef/name",
        "t",
        [f"spec.parentRef: Invalid value: null: {IMMUTABLE}"],
    ),
    (
        "ipaddresses",
        "spec",
        {},
        [f"spec.parentRef: Invalid value: null: {IMMUTABLE}", "spec.parentRef: Required value"],
    ),
    (
        "servicecidrs",
        "spec/cidrs",
        ["10.1.0.0/16"],
        [f'spec.cidrs[0]: Invalid value: "10.1.0.0/16": {IMMUTABLE}'],
    ),
    ("servicecidrs", "spec/cidrs", ["10.0.0.0/16", "2001:db8::/64"], []),
    ("servicecidrs", "spec/cidrs", [], [f"spec.cidrs: Invalid value: []: {IMMUTABLE}"]),
]


@pytest.mark.parametrize(("name", "path", "value", "messages"), UPDATES)
def test_immutable_fields(name, path, value, messages):
    """The controller of a class, the parent of an address and service CIDRs are immutable."""
    old = defaulted(OBJECTS[name])
    new = changed(old, path, value)
    assert write_errors(name, new, old) == messages


def test_names_of_addresses():
    """The name of an IPAddress is the canonical text of the address."""
    assert strategy("ipaddresses").check_name("10.0.0.1") == []
    assert strategy("ipaddresses").check_name("2001:DB8::1") == [
        'must be in canonical form ("2001:db8::1")'
    ]


CLASS_KEY = "kubernetes.io/ingress.class"


def test_class_annotation():
    """The class annotation gives a warning, and must match the field."""
    obj = changed(OBJECTS[ING], "metadata/annotations", {CLASS_KEY: "a"})
    assert strategy(ING).warnings(obj, None) == [
        f"annotation \"{CLASS_KEY}\" is deprecated, please use 'spec.ingressClassName' instead"
    ]
    assert strategy(ING).warnings(obj, obj) == []
    contradictory = changed(obj, "spec/ingressClassName", "b")
    assert strategy(ING).warnings(contradictory, None) == []
    assert write_errors(ING, contradictory) == [
        f'annotations.{CLASS_KEY}: Invalid value: "a": must match `ingressClassName` when both '
        "are specified"
    ]


def test_old_ingresses():
    """Invalid secret names and wildcard rules of an old ingress may stay."""
    wrong = changed(OBJECTS[ING], "spec/tls", [{"secretName": "_"}])
    assert write_errors(ING, wrong, wrong) == []
    assert len(strategy(ING).validate_update(wrong, OBJECTS[ING])) == 1
    wild = changed(changed(OBJECTS[ING], "spec/rules/0/host", "*.a.com"), f"{HTTP}/backend", {})
    assert write_errors(ING, wild, wild) == []


def test_status_of_an_ingress():
    """Addresses and host names in the status are validated."""
    entries = [{"ip": "x"}, {"hostname": "10.0.0.1"}, {"ip": "2001:DB8::1"}]
    new = changed(OBJECTS[ING], "status/loadBalancer", {"ingress": entries})
    status, wrong = strategy(f"{ING}/status"), "status.loadBalancer.ingress[1].hostname"
    for old, expected in (
        (OBJECTS[ING], ["status.loadBalancer.ingress[0].ip", wrong]),
        (new, [wrong]),  # old addresses may stay
    ):
        messages = texts(status.validate_update(new, old))
        assert [text.split(": ")[0] for text in messages] == expected
    assert [text.split(": ")[0] for text in status.warnings(new, new)] == [
        "status.loadBalancer.ingress[2].ip"
    ]


def test_warnings_of_policies():
    """CIDRs in a non-canonical form give warnings."""
    rules = [{"to": [{"ipBlock": {"cidr": "2001:DB8::/32"}}]}]
    (kind_strategy,) = strategy(NP).warnings(changed(OBJECTS[NP], "spec/egress", rules), None)
    assert kind_strategy.startswith("spec.egress[0].to[0].ipBlock.cidr: IPv6 CIDR value")


GENERATIONS = [
    (ING, "spec/ingressClassName", "c"),
    (CLASS, "spec/controller", "example.com/d"),
    (NP, "spec/policyTypes", ["Egress"]),
]


@pytest.mark.parametrize(("name", "path", "value"), GENERATIONS)
def test_generations(name, path, value):
    """Changes of the spec increment the generation."""
    old = defaulted(OBJECTS[name])
    strategy(name).prepare_for_create(old)
    for changes, generation in ((path, 2), ("metadata/labels", 1)):
        new = changed(old, changes, value)
        strategy(name).prepare_for_update(new, old)
        assert new["metadata"]["generation"] == generation


def test_defaults():
    """Missing fields get their defaults."""
    assert defaulted(OBJECTS[NP])["spec"]["policyTypes"] == ["Ingress"]
    egress_policy = defaulted(changed(OBJECTS[NP], "spec/egress", [{"ports": [{"port": 80}]}]))
    assert egress_policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert egress_policy["spec"]["egress"][0]["ports"][0]["protocol"] == "TCP"
    parameters = changed(OBJECTS[CLASS], "spec/parameters", {"kind": "k", "name": "n"})
    assert defaulted(parameters)["spec"]["parameters"]["scope"] == "Cluster"


RULES = [{"host": f"{name}.com"} for name in "abcde"]
CELLS = [
    (ING, {}, {"Class": "<none>", "Hosts": "a.example.com", "Address": "", "Ports": "80"}),
    (
        ING,
        {
            "spec": {"rules": RULES, "tls": [{}], "ingressClassName": "c"},
            "status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.2"}, {"hostname": "h"}]}},
        },
        {
            "Class": "c",
            "Hosts": "a.com,b.com,c.com + 2 more...",
            "Address": "10.0.0.2,h",
            "Ports": "80, 443",
        },
    ),
    (ING, {"spec": {"rules": [{}]}}, {"Hosts": "*"}),
    (CLASS, {}, {"Name": "x", "Controller": "example.com/c", "Parameters": "<none>"}),
    (
        CLASS,
        {
            "metadata": {
                "name": "x",
                "annotations": {"ingressclass.kubernetes.io/is-default-class": "true"},
            },
            "spec": {"parameters": {"apiGroup": "g", "kind": "K", "name": "n"}},
        },
        {"Name": "x (default)", "Parameters": "K.g/n"},
    ),
    (NP, {}, {"Pod-Selector": "<none>"}),
    (NP, {"spec": {"podSelector": {"matchLabels": {"a": "b"}}}}, {"Pod-Selector": "a=b"}),
    ("ipaddresses", {}, {"Name": "x", "ParentRef": "services/s"}),
    (
        "ipaddresses",
        {"spec": {"parentRef": {"group": "G", "resource": "r", "namespace": "n", "name": "s"}}},
        {"ParentRef": "r.g/n/s"},
    ),
    ("servicecidrs", {}, {"CIDRs": "10.0.0.0/16"}),
]


@pytest.mark.parametrize(("name", "change", "cells"), CELLS)
def test_cells(name, change, cells):
    """Columns show backends, classes and addresses."""
    kind = resource(name).kind
    columns = SCHEME.columns("networking.k8s.io", kind)
    row = columns.cells({**OBJECTS[name], **change}, NOW)
    cells_by_name = dict(zip((column.name for column in columns.columns), row, strict=True))
    assert {key: cells_by_name[key] for key in cells} == cells
