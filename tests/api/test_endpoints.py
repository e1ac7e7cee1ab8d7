"""Validation, canonical form and columns of endpoints and endpoint slices."""

from datetime import UTC, datetime

import pytest

from kapiserver.api import names
from kapiserver.api.core.endpoint_subsets import repack_subsets
from tests.objects import GONE, SCHEME, changed, defaulted, strategy, write_errors

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LABEL = names.dns1123_label("_")[0]
NO_IP = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
LOOPBACK = "may not be in the loopback range (127.0.0.0/8, ::1/128)"
SLICE = {
    "kind": "EndpointSlice",
    "apiVersion": "discovery.k8s.io/v1",
    "metadata": {"name": "x", "namespace": "n"},
    "addressType": "IPv4",
    "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {}}],
    "ports": [{"port": 80}],
}
ENDPOINTS = {
    "kind": "Endpoints",
    "apiVersion": "v1",
    "metadata": {"name": "x", "namespace": "n"},
    "subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}],
}
ADDRESSES = "endpoints/0/addresses"
SLICES = [
    ("", GONE, []),
    ("addressType", "", ["addressType: Required value"]),
    (
        "addressType",
        "Odd",
        ['addressType: Unsupported value: "Odd": supported values: "FQDN", "IPv4", "IPv6"'],
    ),
    (
        "addressType",
        "IPv6",
        ['endpoints[0].addresses[0]: Invalid value: "10.0.0.1": must be an IPv6 address'],
    ),
    (
        ADDRESSES,
        [],
        ["endpoints[0].addresses: Required value"],
    ),
    (
        ADDRESSES,
        ["10.0.0.1"] * 101,
        ["endpoints[0].addresses: Too many: 101: must have at most 100 items"],
    ),
    (
        ADDRESSES,
        ["x", "127.0.0.1"],
        [
            f'endpoints[0].addresses[0]: Invalid value: "x": {NO_IP}',
            f'endpoints[0].addresses[1]: Invalid value: "127.0.0.1": {LOOPBACK}',
        ],
    ),
    (
        "endpoints",
        [{"addresses": ["10.0.0.1"]}] * 1001,
        ["endpoints: Too many: 1001: must have at most 1000 items"],
    ),
    ("endpoints/0/hostname", "_", [f'endpoints[0].hostname: Invalid value: "_": {LABEL}']),
    (
        "endpoints/0/hints",
        {"forZones": [{"name": "a"}, {"name": "a"}], "forNodes": [{"name": "a"}] * 9},
        [
            'endpoints[0].hints.forZones[1].name: Duplicate value: "a"',
            "endpoints[0].hints.forNodes: Too many: 9: must have at most 8 items",
        ],
    ),
    ("ports", [{"port": 80}, {"port": 81}], ['ports[1].name: Duplicate value: ""']),
    ("ports/0/name", "_", [f'ports[0].name: Invalid value: "_": {LABEL}']),
    (
        "ports/0/protocol",
        "ICMP",
        ['ports[0].protocol: Unsupported value: "ICMP": supported values: "SCTP", "TCP", "UDP"'],
    ),
]


@pytest.mark.parametrize(("path", "value", "messages"), SLICES)
def test_slices(path, value, messages):
    """Each invalid field gives exactly its messages."""
    obj = defaulted(changed(SLICE, path, value))
    assert write_errors("endpointslices", obj) == messages


DOMAINS = [
    ("a.example.com", None),
    ("a.example.com.", None),
    ("", "Required value"),
    (
        "localhost",
        'Invalid value: "localhost": should be a domain with at least two segments separated by '
        "dots",
    ),
]


@pytest.mark.parametrize(("text", "message"), DOMAINS)
def test_slices_of_domains(text, message):
    """An address of type FQDN may end with a dot."""
    obj = {**defaulted(changed(SLICE, ADDRESSES, [text])), "addressType": "FQDN"}
    assert write_errors("endpointslices", obj) == (
        [f"endpoints[0].addresses[0]: {message}"] if message else []
    )


def test_immutable_address_type():
    """The address type of a slice is immutable."""
    old = defaulted(SLICE)
    new = {**old, "addressType": "FQDN", "endpoints": []}
    (error,) = write_errors("endpointslices", new, old)
    assert error == "addressType: Invalid value: null: field is immutable"


def test_declared_rules():
    """Errors of declarative validation come last. Unchanged endpoints are not validated again."""
    ports = [{"name": "_", "protocol": "TCP"}]
    bad = {**defaulted(SLICE), "addressType": "", "endpoints": [{"addresses": []}], "ports": ports}
    name = f'ports[0].name: Invalid value: "_": {LABEL}'
    kind, missing_addresses = (
        "addressType: Required value",
        "endpoints[0].addresses: Required value",
    )
    assert write_errors("endpointslices", bad) == [name, kind, missing_addresses]
    assert write_errors("endpointslices", bad, bad) == [kind, name]
    assert write_errors("endpointslices", bad, defaulted(SLICE)) == [
        name, "addressType: Invalid value: null: field is immutable", kind, missing_addresses,
    ]  # fmt: skip


GENERATIONS = [
    ("metadata/labels", {"a": "b"}, 2),
    ("metadata/annotations", {"a": "b"}, 1),
    ("ports", [], 2),
]


@pytest.mark.parametrize(("path", "value", "generation"), GENERATIONS)
def test_generations(path, value, generation):
    """Changes of content and labels increment the generation."""
    kind_strategy = strategy("endpointslices")
    old = defaulted(SLICE)
    kind_strategy.prepare_for_create(old)
    assert old["metadata"]["generation"] == 1
    new = changed(old, path, value)
    kind_strategy.prepare_for_update(new, old)
    assert new["metadata"]["generation"] == generation


def test_old_topology():
    """Deprecated topology is dropped, unless the endpoints are unchanged."""
    kind_strategy = strategy("endpointslices")
    old_slice = changed(SLICE, "endpoints/0/deprecatedTopology", {"a": "b"})
    new = defaulted(old_slice)
    kind_strategy.prepare_for_create(new)
    assert "deprecatedTopology" not in new["endpoints"][0]
    updated = defaulted(old_slice)
    kind_strategy.prepare_for_update(updated, old_slice)
    assert updated["endpoints"][0]["deprecatedTopology"] == {"a": "b"}


@pytest.mark.parametrize("manager", ["me", "endpointslice-controller.k8s.io"])
def test_warnings(manager):
    """Addresses in a non-canonical form give warnings, except in slices of Kubernetes'
    controllers."""
    obj = {**SLICE, "addressType": "IPv6", "endpoints": [{"addresses": ["2001:DB8::1"]}]}
    obj["metadata"] = {"labels": {"endpointslice.kubernetes.io/managed-by": manager}}
    assert len(strategy("endpointslices").warnings(obj, None)) == (manager == "me")


SUBSET = "subsets[0]"
CASES = [
    ("", GONE, []),
    (
        "subsets/0/addresses",
        [],
        [f"{SUBSET}: Required value: must specify `addresses` or `notReadyAddresses`"],
    ),
    (
        "subsets/0/notReadyAddresses",
        [{"ip": "127.0.0.1", "hostname": "_"}],
        [
            f'{SUBSET}.notReadyAddresses[0].hostname: Invalid value: "_": {LABEL}',
            f'{SUBSET}.notReadyAddresses[0].ip: Invalid value: "127.0.0.1": {LOOPBACK}',
        ],
    ),
    (
        "subsets/0/ports",
        [{"port": 80, "name": "a"}, {"port": 0}],
        [
            f"{SUBSET}.ports[1].name: Required value",
            f"{SUBSET}.ports[1].port: Invalid value: 0: must be between 1 and 65535, inclusive",
        ],
    ),
    (
        "subsets/0/ports/0/protocol",
        "ICMP",
        [
            f'{SUBSET}.ports[0].protocol: Unsupported value: "ICMP": supported values: "SCTP", '
            '"TCP", "UDP"'
        ],
    ),
]


@pytest.mark.parametrize(("path", "value", "messages"), CASES)
def test_endpoints(path, value, messages):
    """Each invalid field gives exactly its messages."""
    obj = defaulted(changed(ENDPOINTS, path, value))
    assert write_errors("endpoints", obj) == messages


def ips(*addresses):
    """Return endpoint addresses."""
    return [{"ip": ip} for ip in addresses]


def subset(addresses=(), not_ready=(), ports=()):
    """Return a subset without its empty lists."""
    result = {
        "addresses": ips(*addresses),
        "notReadyAddresses": ips(*not_ready),
        "ports": [{"port": port, "protocol": "TCP"} for port in ports],
    }
    return {name: value for name, value in result.items() if value}


FORMS = [
    ([subset(["10.0.0.9", "10.0.0.10"])], [subset(["10.0.0.9", "10.0.0.10"])]),
    (
        [subset(["10.0.0.2"], [], [80]), subset(["10.0.0.1"], [], [80])],
        [subset(["10.0.0.1", "10.0.0.2"], [], [80])],
    ),
    (
        [subset(["10.0.0.1"], [], [81]), subset(["10.0.0.1"], [], [80])],
        [subset(["10.0.0.1"], [], [80, 81])],
    ),
    (
        [subset(["10.0.0.1"], [], [80]), subset([], ["10.0.0.1"], [80])],
        [subset([], ["10.0.0.1"], [80])],
    ),
    (
        [subset(["10.0.0.1", "10.0.0.2"], [], [80]), subset(["10.0.0.1"], [], [81])],
        [subset(["10.0.0.1", "10.0.0.2"], [], [80]), subset(["10.0.0.1"], [], [81])],
    ),
]


@pytest.mark.parametrize(("subsets", "packed"), FORMS)
def test_canonical_form(subsets, packed):
    """Addresses with the same ports are grouped, and ports with the same addresses."""
    obj = {**ENDPOINTS, "subsets": subsets}
    strategy("endpoints").canonicalize(obj)
    assert obj["subsets"] == packed
    assert repack_subsets(packed) == packed


def cells(kind, group, obj):
    """Return the cells of an object by column name."""
    columns = SCHEME.columns(group, kind)
    row = columns.cells(obj, NOW)
    return dict(zip((column.name for column in columns.columns), row, strict=True))


def test_cells():
    """Columns show the first addresses and ports."""
    addresses = ips("10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5")
    for subsets, expected in (
        ([], "<none>"),
        (ENDPOINTS["subsets"], "10.0.0.1:80"),
        ([{"addresses": addresses}], "10.0.0.1,10.0.0.2,10.0.0.3 + 2 more..."),
        ([subset(["2001:db8::1"], [], [80])], "[2001:db8::1]:80"),
    ):
        assert cells("Endpoints", "", {**ENDPOINTS, "subsets": subsets})["Endpoints"] == expected
    expected = cells("EndpointSlice", "discovery.k8s.io", SLICE)
    assert (expected["AddressType"], expected["Ports"], expected["Endpoints"]) == (
        "IPv4",
        "80",
        "10.0.0.1",
    )
    empty = {**SLICE, "endpoints": None, "ports": [{"name": "a"}, {}]}
    expected = cells("EndpointSlice", "discovery.k8s.io", empty)
    assert (expected["Ports"], expected["Endpoints"]) == ("a,*", "<unset>")
