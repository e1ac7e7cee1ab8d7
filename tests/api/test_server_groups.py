"""The groups coordination, apiregistration, internal.apiserver, storagemigration and lifecycle."""

from copy import deepcopy

import pytest

from kapiserver.api import names
from tests.api.test_columns import cells
from tests.objects import GONE, changed, defaulted, strategy, texts, write_errors


def _object(version, kind, name, spec, *, namespace=None):
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"kind": kind, "apiVersion": version, "metadata": metadata, "spec": spec, "status": {}}


CANDIDATE = _object(
    "coordination.k8s.io/v1beta1",
    "LeaseCandidate",
    "c",
    {
        "leaseName": "l",
        "binaryVersion": "1.2.0",
        "emulationVersion": "1.1.0",
        "strategy": "OldestEmulationVersion",
    },
    namespace="n",
)
LEASE = _object("coordination.k8s.io/v1", "Lease", "l", {"holderIdentity": "h"}, namespace="n")
SERVICE = defaulted(
    _object(
        "apiregistration.k8s.io/v1",
        "APIService",
        "v1.example.com",
        {
            "service": {"namespace": "n", "name": "s"},
            "group": "example.com",
            "version": "v1",
            "groupPriorityMinimum": 100,
            "versionPriority": 10,
        },
    )
)
MIGRATION = _object(
    "storagemigration.k8s.io/v1",
    "StorageVersionMigration",
    "m",
    {"resource": {"group": "apps", "resource": "deployments"}},
)
UID = "0b1c2d3e-0000-4000-8000-000000000000"
REQUEST = _object(
    "lifecycle.k8s.io/v1alpha1",
    "EvictionRequest",
    "r",
    {
        "target": {"pod": {"name": "p", "uid": UID}},
        "requester": "example.com/me",
        "intent": "Eviction",
    },
    namespace="n",
)
VERSION = _object("internal.apiserver.k8s.io/v1alpha1", "StorageVersion", "apps.deployments", {})

NEW = [
    ("leasecandidates", CANDIDATE, "", GONE, []),
    ("leasecandidates", CANDIDATE, "spec/leaseName", "", ["spec.leaseName: Required value"]),
    ("leasecandidates", CANDIDATE, "spec/binaryVersion", "1", [
        'spec.binaryVersion: Invalid value: "1": must be a valid semantic version',
        'spec.binaryVersion: Invalid value: "1": must be greater than or equal to '
        "`emulationVersion`",
    ]),
    ("leasecandidates", CANDIDATE, "spec/binaryVersion", "1.1.0-rc.1", [
        'spec.binaryVersion: Invalid value: "1.1.0-rc.1": must be greater than or equal to '
        "`emulationVersion`"
    ]),
    ("leasecandidates", CANDIDATE, "spec/binaryVersion", "1.2.0-01", [
        'spec.binaryVersion: Invalid value: "1.2.0-01": must be a valid semantic version',
        'spec.binaryVersion: Invalid value: "1.2.0-01": must be greater than or equal to '
        "`emulationVersion`",
    ]),
    ("leasecandidates", CANDIDATE, "spec/binaryVersion", GONE, [
        "spec.binaryVersion: Required value"
    ]),
    ("leasecandidates", CANDIDATE, "spec/emulationVersion", GONE, [
        "spec.emulationVersion: Required value: must be specified when `strategy` is "
        "'OldestEmulationVersion'"
    ]),
    ("leasecandidates", CANDIDATE, "spec/strategy", "Odd", [
        'spec.strategy.strategy: Unsupported value: "Odd": supported values: '
        '"OldestEmulationVersion"'
    ]),
    ("leases", LEASE, "", GONE, []),
    ("leases", LEASE, "spec/preferredHolder", "h", [
        "spec.preferredHolder: Forbidden: may only be specified if `strategy` is defined"
    ]),
    ("leases", LEASE, "spec/strategy", "", [
        'spec.strategy.strategy: Unsupported value: "": supported values: '
        '"OldestEmulationVersion"'
    ]),
    ("leases", LEASE, "spec/leaseDurationSeconds", 0, [
        "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"
    ]),
    ("leasecandidates", CANDIDATE, "spec/emulationVersion", "2.0.0", [
        'spec.binaryVersion: Invalid value: "1.2.0": must be greater than or equal to '
        "`emulationVersion`"
    ]),
    ("apiservices", SERVICE, "", GONE, []),
    ("apiservices", SERVICE, "metadata/name", "x", [
        'metadata.name: Invalid value: "x": must be `spec.version+"."+spec.group`: '
        '"v1.example.com"'
    ]),
    ("apiservices", SERVICE, "metadata/generateName", "x", [
        'metadata.generateName: Invalid value: "x": must be `spec.version+"."+spec.group`: '
        '"v1.example.com"'
    ]),
    ("apiservices", SERVICE, "spec/versionPriority", 0, [
        "spec.versionPriority: Invalid value: 0: must be positive and less than 1000"
    ]),
    ("apiservices", SERVICE, "spec/service/port", 0, [
        "spec.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, "
        "inclusive"
    ]),
    ("apiservices", changed(SERVICE, "spec/caBundle", "AA=="), "spec/insecureSkipTLSVerify", True, [
        "spec.insecureSkipTLSVerify: Invalid value: true: may not be true if caBundle is present"
    ]),
    ("storageversionmigrations", MIGRATION, "", GONE, []),
    ("storageversionmigrations", MIGRATION, "spec/resource/resource", "", [
        "spec.resource.resource: Required value: resource is required to be set"
    ]),
    ("evictionrequests", REQUEST, "", GONE, []),
    ("evictionrequests", REQUEST, "spec/target", {}, [
        'spec.target: Invalid value: "": must specify one of: `pod`'
    ]),
    ("evictionrequests", REQUEST, "spec/target", GONE, [
        'spec.target: Invalid value: "": must specify one of: `pod`'
    ]),
    ("evictionrequests", REQUEST, "spec", {"target": {"pod": {"name": "P", "uid": "u"}}}, [
        f'spec.target.pod.name: Invalid value: "P": {names.dns1123_subdomain("P")[0]}',
        'spec.target.pod.uid: Invalid value: "u": must be a lowercase UUID in 8-4-4-4-12 format',
        "spec.requester: Required value",
        "spec.intent: Required value",
    ]),
    ("evictionrequests", REQUEST, "spec/requester", "me", [
        'spec.requester: Invalid value: "me": must be a domain-prefixed key (such as "acme.io/foo")'
    ]),
    ("evictionrequests", REQUEST, "spec/intent", "Odd", [
        'spec.intent: Unsupported value: "Odd": supported values: "Eviction", "Withdrawn"'
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "base", "path", "value", "messages"), NEW)
def test_new(name, base, path, value, messages):
    """New objects of each kind are validated."""
    assert write_errors(name, changed(base, path, value)) == messages


KEPT = [
    ("leasecandidates", CANDIDATE, "spec/leaseName", "m", [
        'spec.leaseName: Invalid value: "m": field is immutable'
    ]),
    ("storageversionmigrations", MIGRATION, "spec/resource/group", "batch", [
        'spec: Invalid value: {"Resource":{"group":"batch","resource":"deployments"}}: field is '
        "immutable"
    ]),
    ("evictionrequests", REQUEST, "spec/requester", "example.com/you", [
        "spec.requester: Invalid value: null: field is immutable"
    ]),
    ("evictionrequests", REQUEST, "spec/intent", "Withdrawn", []),
]  # fmt: skip


@pytest.mark.parametrize(("name", "base", "path", "value", "messages"), KEPT)
def test_changed(name, base, path, value, messages):
    """Immutable fields give exact messages."""
    assert write_errors(name, changed(base, path, value), base) == messages


EVICTION = {
    **REQUEST,
    "kind": "Eviction",
    "spec": {"target": REQUEST["spec"]["target"]},
    "status": {
        "observedGeneration": 3,
        "requesters": [{"name": "a.b/c", "intent": "Eviction"}],
        "targetResponders": [{"name": "a.b/r", "priority": 0, "state": "Active"}],
        "responders": [{"name": "a.b/r", "startTime": "2026-01-01T00:00:00Z"}],
    },
}
REPORTS = [
    ("observedGeneration", 4, []),
    ("observedGeneration", 2, [
        "observedGeneration: Invalid value: 2: cannot decrement, must be greater than or equal to 3"
    ]),
    ("observedGeneration", GONE, [
        "observedGeneration: Invalid value: null: field cannot be cleared once set"
    ]),
    ("requesters/0/name", "me", [
        'requesters[0].name: Invalid value: "me": must be a domain-prefixed key (such as '
        '"acme.io/foo")'
    ]),
    ("requesters", [{"name": "a.b/c", "intent": "Odd"}, {"name": "a.b/c", "intent": "Eviction"}], [
        'requesters[1]: Duplicate value: {"name":"a.b/c","intent":"Eviction"}',
        'requesters[0].intent: Unsupported value: "Odd": supported values: "Eviction", "Withdrawn"',
    ]),
    ("targetResponders/0/priority", 1, [
        "targetResponders[0].priority: Invalid value: null: field cannot be modified once set"
    ]),
    ("targetResponders/0/state", "Odd", [
        'targetResponders[0].state: Unsupported value: "Odd": supported values: "Active", '
        '"Canceled", "Completed", "Inactive", "Interrupted"'
    ]),
    ("responders/0/startTime", "2026-01-01T00:00:01Z", [
        "responders[0].startTime: Invalid value: null: field cannot be modified once set"
    ]),
    ("responders/0/startTime", GONE, [
        "responders[0].startTime: Invalid value: null: field cannot be cleared once set"
    ]),
    ("responders/0/message", "x" * 4001, [
        "responders[0].message: Too long: may not be more than 4000 characters"
    ]),
    ("responders", [{"name": f"a.b/r{i}"} for i in range(12)], [
        "responders: Too many: 12: must have at most 11 items"
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "messages"), REPORTS)
def test_eviction_status(path, value, messages):
    """Declarative validation applies to the status of an eviction."""
    new = changed(EVICTION, f"status/{path}", value)
    assert write_errors("evictions/status", new, EVICTION) == [
        f"status.{message}" for message in messages
    ]


def test_local_services_are_available():
    """An APIService without a service is available at once."""
    obj = changed(SERVICE, "spec/service")
    obj["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    strategy("apiservices").prepare_for_create(obj)
    assert cells("apiservices", obj)["Available"] == "True"
    assert cells("apiservices", SERVICE)["Available"] == "Unknown"


def test_migrations_end_once():
    """A migration that succeeded cannot fail later."""
    succeeded = {"type": "Succeeded", "status": "True"}
    old = changed(MIGRATION, "status", {"conditions": [succeeded], "resourceVersion": "1"})
    new = changed(old, "status/conditions", [])
    assert texts(strategy("storageversionmigrations/status").validate_update(new, old)) == [
        "status.conditions: Invalid value: []: Success condition cannot be set to false once it "
        "is true"
    ]
    assert cells("storageversionmigrations", old)["Status"] == "Succeeded"


def test_fields_of_coordinated_leader_election():
    """A lease gets no fields of a feature that is off in 1.37, and keeps those that it has."""
    coordinated = {"strategy": "OldestEmulationVersion", "preferredHolder": "other"}
    lease = changed(LEASE, "spec", LEASE["spec"] | coordinated)
    created = deepcopy(lease)
    strategy("leases").prepare_for_create(created)
    assert created == LEASE
    updated = deepcopy(lease)
    strategy("leases").prepare_for_update(updated, LEASE)
    assert updated == LEASE
    original = deepcopy(lease)
    strategy("leases").prepare_for_update(original, lease)
    assert original == lease


def test_storage_versions():
    """A common encoding version is required if all servers agree, and forbidden if not."""
    assert strategy("storageversions").check_name("x") == [
        "name must be in the form of <group>.<resource>"
    ]
    assert strategy("storageversions").check_name("apps.deployments") == []
    server = {"apiServerID": "a", "encodingVersion": "v1", "decodableVersions": ["v1"]}
    new = changed(VERSION, "status/storageVersions", [server])
    rule = strategy("storageversions/status")
    assert texts(rule.validate_update(new, VERSION)) == [
        "status.commonEncodingVersion: Required value: the common encoding version is v1"
    ]
    new["status"]["commonEncodingVersion"] = "v1"
    assert rule.validate_update(new, VERSION) == []
    assert cells("storageversions", new)["StorageVersions"] == "a=v1"
