"""Validation and warnings of services: exact causes, in order."""

import pytest

from tests.objects import SERVICE, changed, defaulted, strategy, texts

SERVICES = strategy("services")
ONLY = "may only be used when `type` is 'LoadBalancer'"
RANGES = "spec.LoadBalancerSourceRanges"
ANNOTATED = "metadata.annotations[service.beta.kubernetes.io/load-balancer-source-ranges]"
MODE = "service.kubernetes.io/topology-mode"
HINTS = "service.kubernetes.io/topology-aware-hints"
ZEROS = "must not have leading 0s"
BITS = "must not have bits set beyond the prefix length"
NO_CIDR = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"


def service(**spec):
    """Return a service with allocated addresses."""
    addresses = {"clusterIP": "10.0.0.1", "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"}
    stored = defaulted(changed(SERVICE, "spec", {"ports": [{"port": 80}], **addresses, **spec}))
    old_spec = stored["spec"].get("clusterIP")
    if old_spec and "clusterIPs" not in spec:
        stored["spec"]["clusterIPs"] = [old_spec]
    return stored


def annotated(annotations, **spec):
    return changed(service(**spec), "metadata/annotations", annotations)


DUAL = {
    "clusterIPs": ["10.0.0.1", "fd00::1"],
    "ipFamilies": ["IPv4", "IPv6"],
    "ipFamilyPolicy": "RequireDualStack",
}
BALANCED = {"type": "LoadBalancer"}
LOCAL = {**BALANCED, "externalTrafficPolicy": "Local", "healthCheckNodePort": 30000}

NEW = [
    (service(), []),
    (
        service(ports=[{"port": 80, "nodePort": 30000}, {"port": 80, "nodePort": 30000}]),
        [
            "spec.ports[0].name: Required value",
            "spec.ports[1].name: Required value",
            "spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'",
            "spec.ports[1].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'",
            "spec.ports[1].nodePort: Duplicate value: 30000",
            'spec.ports[1]: Duplicate value: {"Name":"","Protocol":"TCP","AppProtocol":null,'
            '"Port":80,"TargetPort":0,"NodePort":0}',
        ],
    ),
    (
        service(ports=[{"port": 80, "name": "a.b"}]),
        ['spec.ports[0].name: Invalid value: "a.b": must not contain dots'],
    ),
    (
        annotated({MODE: "Auto", HINTS: "auto"}),
        [
            f'metadata.annotations[{MODE}]: Invalid value: "Auto": must match '
            f"annotations[{HINTS}] when both are specified"
        ],
    ),
    (
        service(loadBalancerSourceRanges=["10.0.0.0/8", "x"], loadBalancerClass="a/b/c"),
        [
            f"{RANGES}: Forbidden: {ONLY}",
            f'{RANGES}[1]: Invalid value: "x": {NO_CIDR}',
            f"spec.loadBalancerClass: Forbidden: {ONLY}",
        ],
    ),
    (
        service(**BALANCED, loadBalancerSourceRanges=[" 10.0.0.0/8 ", "10.1.2.3/8"]),
        [f'{RANGES}[1]: Invalid value: "10.1.2.3/8": {BITS}'],
    ),
    (
        annotated({ANNOTATED[21:-1]: "10.0.0.0/8, x"}),
        [f"{ANNOTATED}: Forbidden: {ONLY}", f'{ANNOTATED}: Invalid value: "x": {NO_CIDR}'],
    ),
    (
        changed(service(**BALANCED), "spec/allocateLoadBalancerNodePorts"),
        ["allocateLoadBalancerNodePorts: Required value"],
    ),
    (service(**LOCAL), []),
    (
        changed(service(**LOCAL), "spec/healthCheckNodePort", 0),
        ["spec.healthCheckNodePort: Required value"],
    ),
    (
        changed(service(**LOCAL), "spec/healthCheckNodePort", 70000),
        ["spec.healthCheckNodePort: Invalid value: 70000: must be between 1 and 65535, inclusive"],
    ),
    (
        changed(service(), "spec/internalTrafficPolicy"),
        ["spec.internalTrafficPolicy: Required value"],
    ),
    (
        service(trafficDistribution="Near"),
        [
            'spec.trafficDistribution: Unsupported value: "Near": supported values: "PreferClose", '
            '"PreferSameZone", "PreferSameNode"'
        ],
    ),
    (
        service(externalIPs=["010.0.0.1", "0.0.0.0"]),
        [
            f'spec.externalIPs[0]: Invalid value: "010.0.0.1": {ZEROS}',
            'spec.externalIPs[1]: Invalid value: "0.0.0.0": may not be unspecified (0.0.0.0)',
        ],
    ),
    (
        service(clusterIPs=["10.0.0.1", "10.0.0.2"], ipFamilies=["IPv6", "IPv4"]),
        [
            'spec.clusterIPs: Invalid value: ["10.0.0.1","10.0.0.2"]: may specify no more than '
            "one IP for each IP family",
            'spec.clusterIPs[0]: Invalid value: "10.0.0.1": expected an IPv6 value as indicated '
            "by `ipFamilies[0]`",
        ],
    ),
    (
        service(clusterIP="None", clusterIPs=["None", "10.0.0.1", "fd00::1"]),
        [
            'spec.clusterIPs: Invalid value: ["None","10.0.0.1","fd00::1"]: \'None\' must be the '
            "first and only value",
            'spec.clusterIPs: Invalid value: ["None","10.0.0.1","fd00::1"]: may only hold up to 2 '
            "values",
        ],
    ),
]


@pytest.mark.parametrize(("obj", "messages"), NEW)
def test_new(obj, messages):
    """New services are valid or give exact causes."""
    assert texts(SERVICES.validate(obj)) == messages


KEPT = "may not change once set"
STAYS = "field is immutable"
POLICY = "spec.ipFamilyPolicy: Invalid value"
CHANGED = [
    (service(), service(), []),
    (
        service(),
        service(clusterIP="10.0.0.2"),
        [f'spec.clusterIPs[0]: Invalid value: ["10.0.0.2"]: {KEPT}'],
    ),
    (service(), service(**DUAL), []),
    (
        service(**DUAL),
        service(ipFamilyPolicy="PreferDualStack"),
        [
            f"{POLICY}: \"PreferDualStack\": must be set to 'SingleStack' when releasing the "
            f"secondary {name}"
            for name in ("clusterIP", "ipFamily")
        ],
    ),
    (service(**DUAL), service(), []),
    (
        service(**DUAL),
        service(
            clusterIP="fd00::1",
            clusterIPs=["fd00::1", "10.0.0.1"],
            ipFamilies=["IPv6", "IPv4"],
            ipFamilyPolicy="RequireDualStack",
        ),
        [
            f'spec.clusterIPs[0]: Invalid value: ["fd00::1","10.0.0.1"]: {KEPT}',
            f'spec.clusterIPs[1]: Invalid value: ["fd00::1","10.0.0.1"]: {KEPT}',
            f'spec.ipFamilies[0]: Invalid value: ["IPv6","IPv4"]: {KEPT}',
            f'spec.ipFamilies[0]: Invalid value: ["IPv6","IPv4"]: {KEPT}',
        ],
    ),
    (
        service(),
        changed(changed(service(clusterIP=""), "spec/ipFamilies"), "spec/ipFamilyPolicy"),
        [
            "spec.clusterIPs[0]: Invalid value: null: primary clusterIP can not be unset",
            "spec.ipFamilies[0]: Invalid value: null: primary ipFamily can not be unset",
        ],
    ),
    (
        service(**BALANCED, loadBalancerClass="a/b"),
        service(**BALANCED),
        [f"spec.loadBalancerClass: Invalid value: null: {KEPT}"],
    ),
    (
        service(**LOCAL),
        service(**LOCAL | {"healthCheckNodePort": 30001}),
        [f"spec.healthCheckNodePort: Forbidden: {STAYS}"],
    ),
    (service(externalIPs=["010.0.0.1"]), service(externalIPs=["010.0.0.1"]), []),
    (
        service(**BALANCED, loadBalancerSourceRanges=["10.1.2.3/8"]),
        service(**BALANCED, loadBalancerSourceRanges=["10.1.2.3/8 ", "10.1.2.4/8"]),
        [f'{RANGES}[1]: Invalid value: "10.1.2.4/8": {BITS}'],
    ),
]


@pytest.mark.parametrize(("old", "new", "messages"), CHANGED)
def test_changed(old, new, messages):
    """Allocated values are immutable, and invalid old values may stay."""
    assert texts(SERVICES.validate_update(new, old)) == messages


INGRESS = "status.loadBalancer.ingress"
REPORTS = [
    ({}, {"ip": "1.2.3.4"}, [f"{INGRESS}: Forbidden: may only be used when `spec.type` is "
                             "'LoadBalancer'"]),
    (BALANCED, {"ip": "1.2.3.4", "ipMode": "VIP"}, []),
    (BALANCED, {"ip": "01.2.3.4"}, [
        f'{INGRESS}[0].ip: Invalid value: "01.2.3.4": {ZEROS}',
        f"{INGRESS}[0].ipMode: Required value: must be specified when `ip` is set",
    ]),
    (BALANCED, {"ipMode": "VIP", "hostname": "1.2.3.4"}, [
        f"{INGRESS}[0].ipMode: Forbidden: may not be specified when `ip` is not set",
        f'{INGRESS}[0].hostname: Invalid value: "1.2.3.4": must be a DNS name, not an IP address',
    ]),
    (BALANCED, {"ip": "1.2.3.4", "ipMode": "Odd"}, [
        f'{INGRESS}[0].ipMode: Unsupported value: "Odd": supported values: "Proxy", "VIP"',
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "ingress", "messages"), REPORTS)
def test_status(spec, ingress, messages):
    """The load balancer status is validated, and allowed for LoadBalancer services only."""
    new = changed(service(**spec), "status/loadBalancer", {"ingress": [ingress]})
    assert texts(strategy("services/status").validate_update(new, service(**spec))) == messages


def test_old_status_addresses():
    """An invalid old address in the status may stay."""
    entry = {"ip": "01.2.3.4", "ipMode": "VIP"}
    new = changed(service(**BALANCED), "status/loadBalancer", {"ingress": [entry]})
    assert texts(strategy("services/status").validate_update(new, new)) == []


def test_change_of_type():
    """A service that is no longer a LoadBalancer loses its status and its node ports."""
    ports = [
        {"name": "a", "port": 80, "nodePort": 30000},
        {"name": "b", "port": 81, "nodePort": 30001},
    ]
    old = changed(
        service(**BALANCED, ports=ports), "status/loadBalancer", {"ingress": [{"hostname": "h"}]}
    )
    new = changed(changed(old, "spec/type", "ClusterIP"), "spec/ports/1/nodePort", 0)
    SERVICES.prepare_for_update(new, old)
    assert new["status"] == {"loadBalancer": {}}
    assert [port.get("nodePort") for port in new["spec"]["ports"]] == [None, None]
    assert texts(SERVICES.validate_update(new, old)) == []


WARNINGS = [
    ({}, {}, []),
    (
        {"clusterIP": "None", "externalIPs": ["1.2.3.4"], "loadBalancerIP": "1.2.3.4",
         "sessionAffinity": "ClientIP"},
        {},
        [
            "spec.loadBalancerIP is ignored for headless services",
            "spec.externalIPs is ignored for headless services",
            "spec.SessionAffinity is ignored for headless services",
        ],
    ),
    (
        {"externalIPs": ["1.2.3.4"], "loadBalancerIP": "01.2.3.4"},
        {HINTS: "auto"},
        [
            f"annotation {HINTS} is deprecated, please use {MODE} instead",
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
            'spec.loadBalancerIP: non-standard IP address "01.2.3.4" will be considered invalid in '
            'a future Kubernetes release: use "1.2.3.4"',
        ],
    ),
    (
        {"type": "ExternalName", "clusterIP": "", "externalIPs": ["1.2.3.4"]},
        {},
        ['spec.externalIPs is ignored when spec.type is "ExternalName"'],
    ),
    (
        {"clusterIP": "FD00::1", "externalName": "a", "trafficDistribution": "PreferClose"},
        {},
        [
            'spec.clusterIPs[0]: IPv6 address "FD00::1" should be in RFC 5952 canonical format '
            '("fd00::1")',
            'spec.externalName is ignored when spec.type is not "ExternalName"',
            'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"',
        ],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "annotations", "messages"), WARNINGS)
def test_warnings(spec, annotations, messages):
    """Deprecated and ignored fields give warnings."""
    assert SERVICES.warnings(annotated(annotations, **spec), None) == messages
