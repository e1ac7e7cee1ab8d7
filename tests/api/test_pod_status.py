"""Validation of pod statuses, and their strategy."""

import copy

import pytest

from tests.objects import POD, changed, defaulted, strategy, texts

CONTAINER = {"name": "c", "resources": {"requests": {"example.com/gpu": "1"}, "claims": []}}
MAPPING = {"containerName": "c", "resourceName": "example.com/gpu", "requestName": "r"}
EXTENDED = "status.extendedResourceClaimStatus"


def mapped(*mappings, name="claim"):
    """Return a status with a claim for extended resources."""
    claim = {"requestMappings": list(mappings), "resourceClaimName": name}
    return {"extendedResourceClaimStatus": claim}


CASES = [
    ({"conditions": [{"type": "a b", "observedGeneration": -1}, {"type": "Ready"}]}, [
        "status.conditions[0].observedGeneration: Invalid value: -1: must be a non-negative "
        "integer",
        'status.conditions[0].Type: Invalid value: "a b": name part must consist of alphanumeric '
        "characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. "
        "'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
        "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
    ]),
    ({"observedGeneration": -1},
     ["status.observedGeneration: Invalid value: -1: must be a non-negative integer"]),
    ({"qosClass": "Guaranteed"},
     ['status.qosClass: Invalid value: "Guaranteed": field is immutable']),
    ({"nominatedNodeName": "m"}, [
        "status.nominatedNodeName: Forbidden: may not be set on pods that are already bound to a "
        "node"
    ]),
    ({"podIPs": [{"ip": "1.2.3.4"}, {"ip": "1.2.3.4"}]}, [
        'status.podIPs: Invalid value: [{"IP":"1.2.3.4"},{"IP":"1.2.3.4"}]: may specify no more '
        "than one IP for each IP family"
    ]),
    ({"podIPs": [{"ip": "010.0.0.1"}]}, []),  # an old address
    ({"podIPs": [{"ip": "010.0.0.2"}]},
     ['status.podIPs[0]: Invalid value: "010.0.0.2": must not have leading 0s']),
    ({"podIPs": [{"ip": "1.2.3.4"}, {"ip": "x"}]}, [
        'status.podIPs[1]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or '
        "2001:db8::ffff)",
        "status.podIPs: Internal error: failed to check for dual stack with error:invalid IP[1]: x",
        'status.podIPs: Invalid value: [{"IP":"1.2.3.4"},{"IP":"x"}]: may specify no more than one '
        "IP for each IP family",
    ]),
    ({"hostIP": "1.2.3.4", "hostIPs": [{"ip": "1.2.3.5"}]},
     ['status.hostIPs[0].ip: Invalid value: "1.2.3.5": must be equal to `hostIP`']),
    ({"resourceClaimStatuses": [{"name": "x"}, {"name": "x", "resourceClaimName": "x"}]}, [
        'status.resourceClaimStatuses[0].name: Invalid value: "x": must match the name of an entry '
        "in `spec.resourceClaims`",
        'status.resourceClaimStatuses[1].name: Invalid value: "x": must match the name of an entry '
        "in `spec.resourceClaims`",
        'status.resourceClaimStatuses[1].name: Duplicate value: "x"',
    ]),
    (mapped(MAPPING), []),
    (mapped(name=""), [
        f"{EXTENDED}.requestMappings: Required value: at least one request mapping is required",
        f"{EXTENDED}.resourceClaimName: Required value",
    ]),
    (mapped({**MAPPING, "containerName": "x"}, {**MAPPING, "resourceName": "y"}), [
        f'{EXTENDED}.requestMappings[0].containerName: Invalid value: "x": must match the name of '
        "an entry in spec.initContainers.name or spec.containers.name",
        f'{EXTENDED}.requestMappings[1].resourceName: Invalid value: "y": must match the extended '
        "resource name of an entry in spec.initContainers.resources.requests or "
        "spec.containers.resources.requests",
    ]),
    (mapped(MAPPING, MAPPING), [
        f'{EXTENDED}.requestMappings[1].containerName: Duplicate value: "c"',
        f'{EXTENDED}.requestMappings[1].resourceName: Duplicate value: "example.com/gpu"',
        f'{EXTENDED}.requestMappings[1].requestName: Duplicate value: "r"',
    ]),
    ({"containerStatuses": [{"name": "c", "user": {"linux": {"uid": -1, "gid": 0}}}]}, [
        "status.containerStatuses[0].user.linux.uid: Invalid value: -1: must be between 0 and "
        "2147483647, inclusive"
    ]),
    ({"containerStatuses": [{"name": "c", "allocatedResourcesStatus": [{"name": "x"}]}]}, [
        'status.containerStatuses[0].allocatedResourcesStatus[0].name: Invalid value: "x": must '
        "match one of the container's resource requests"
    ]),
    ({"ephemeralContainerStatuses": [{"name": "e", "allocatedResourcesStatus": [{"name": "x"}]}]},
     ["status.ephemeralContainerStatuses[0].allocatedResourcesStatus: Forbidden: must not be "
      "specified in container status"]),
]  # fmt: skip


@pytest.mark.parametrize(("status", "messages"), CASES)
def test_rules(status, messages):
    """Each invalid field gives exactly its messages."""
    old = defaulted(
        changed(POD, "spec/containers", [{**POD["spec"]["containers"][0], **CONTAINER}])
    )
    old["spec"]["nodeName"] = "n"
    old["status"] = {"qosClass": "BestEffort", "podIPs": [{"ip": "010.0.0.1"}]}
    new = copy.deepcopy(old)
    new["status"] |= status
    assert texts(strategy("pods/status").validate_update(new, old)) == messages


def rule(action, operator, *values):
    """Return a container restart rule for one exit code."""
    return {"action": action, "exitCodes": {"operator": operator, "values": list(values)}}


RESTARTS = [  # pod policy, list of the container, its fields, exit code, whether it may restart
    ("Always", "containers", {}, 0, True),
    ("OnFailure", "containers", {}, 0, False),
    ("OnFailure", "containers", {}, 1, True),
    ("Never", "containers", {}, 1, False),
    ("Never", "containers", {"restartPolicy": "OnFailure"}, 1, True),
    ("Never", "containers", {"restartPolicy": "OnFailure"}, 0, False),
    ("Always", "containers", {"restartPolicy": "Never"}, 1, False),
    ("Always", "containers", {"name": "other"}, 1, False),
    ("Never", "containers",
     {"restartPolicy": "Never", "restartPolicyRules": [rule("Restart", "In", 3)]}, 3, True),
    ("Never", "containers",
     {"restartPolicy": "Never", "restartPolicyRules": [rule("Restart", "In", 3)]}, 4, False),
    ("Never", "containers",
     {"restartPolicy": "Never", "restartPolicyRules": [rule("Restart", "NotIn", 3)]}, 4, True),
    ("Never", "containers",
     {"restartPolicy": "Never", "restartPolicyRules": [rule("RestartAllContainers", "In", 3)]},
     0, True),
    ("Never", "initContainers", {"restartPolicy": "Always"}, 0, True),
    ("Never", "initContainers", {}, 1, False),
    ("OnFailure", "initContainers", {}, 1, True),
    ("Always", "ephemeralContainers", {}, 1, False),
]  # fmt: skip


@pytest.mark.parametrize(
    ("policy", "container_list", "container_fields", "code", "restarts"), RESTARTS
)
def test_restarts(policy, container_list, container_fields, code, restarts):
    """A terminated container runs again only if its restart policy allows it."""
    name = {"containers": "container", "initContainers": "initContainer"}.get(container_list)
    name = f"{name or 'ephemeralContainer'}Statuses"
    old = defaulted(changed(POD, f"spec/{container_list}", [{"name": "c", **container_fields}]))
    old["spec"]["restartPolicy"] = policy
    old["status"] = {name: [{"name": "c", "state": {"terminated": {"exitCode": code}}}]}
    new = changed(old, f"status/{name}/0/state", {"running": {}})
    forbidden = (
        f"status.{name}[0].state: Forbidden: may not be transitioned to non-terminated state"
    )
    messages = texts(strategy("pods/status").validate_update(new, old))
    assert messages == ([] if restarts else [forbidden])


def test_annotations():
    """A status update cannot change AppArmor annotations."""
    key = "container.apparmor.security.beta.kubernetes.io/c"
    old = defaulted(POD)
    new = changed(old, "metadata/annotations", {key: "unconfined"})
    assert texts(strategy("pods/status").validate_update(new, old))[0] == (
        f"metadata.annotations[{key}]: Forbidden: may not add AppArmor annotations"
    )


def test_observed_generations():
    """Status updates without observed generations keep the old ones."""
    kinds = [("A", 1), ("A", 2), ("B", 3)]
    old = defaulted(POD)
    old["status"] = {
        "observedGeneration": 3,
        "conditions": [
            {"type": kind, "observedGeneration": old_generations} for kind, old_generations in kinds
        ],
    }
    new = copy.deepcopy(old)
    new["status"] = {"conditions": [{"type": kind, "status": "True"} for kind in "BACA"]}
    new["status"]["conditions"][3]["observedGeneration"] = 9
    strategy("pods/status").prepare_for_update(new, old)
    assert new["status"]["observedGeneration"] == 3
    generations = [condition.get("observedGeneration") for condition in new["status"]["conditions"]]
    assert generations == [3, 1, None, 9]
    assert list(new["status"]) == ["observedGeneration", "conditions"]


def test_warnings():
    """Addresses in a non-canonical form give warnings."""
    new = changed(defaulted(POD), "status", {"podIPs": [{"ip": "::01"}], "hostIPs": [{"ip": "::"}]})
    assert strategy("pods/status").warnings(new, POD) == [
        'status.podIPs[0].ip: IPv6 address "::01" should be in RFC 5952 canonical format ("::1")'
    ]
