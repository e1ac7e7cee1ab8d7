"""Validation, defaults, generations and columns of the apps group, and of replication controllers
and pod templates."""

import copy
from datetime import UTC, datetime

import pytest

from tests.objects import DEPLOYMENT, GONE, SCHEME, changed, defaulted, resource, strategy, texts

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TEMPLATE = DEPLOYMENT["spec"]["template"]
SELECTOR = DEPLOYMENT["spec"]["selector"]


def _object(kind, api_version="apps/v1", **spec):
    return {
        "kind": kind,
        "apiVersion": api_version,
        "metadata": {"name": "x", "namespace": "n"},
        "spec": {"selector": SELECTOR, "template": TEMPLATE, **spec},
        "status": {},
    }


CLAIM = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    "status": {},
}
OBJECTS = {
    "deployments": DEPLOYMENT,
    "replicasets": _object("ReplicaSet"),
    "daemonsets": _object("DaemonSet", updateStrategy={}),
    "statefulsets": _object("StatefulSet", serviceName="s", updateStrategy={}),
    "replicationcontrollers": _object("ReplicationController", "v1", selector={"a": "b"}),
    "podtemplates": {
        "kind": "PodTemplate",
        "apiVersion": "v1",
        "metadata": {"name": "x", "namespace": "n"},
        "template": TEMPLATE,
    },
    "controllerrevisions": {
        "kind": "ControllerRevision",
        "apiVersion": "apps/v1",
        "metadata": {"name": "x", "namespace": "n"},
        "data": {"a": 1},
        "revision": 1,
    },
}
RS, DS, STS, RC = "replicasets", "daemonsets", "statefulsets", "replicationcontrollers"
DEPLOY = "deployments"
BAD_LABEL = (
    'spec.template.labels: Invalid value: "!": name part must consist of alphanumeric characters, '
    "'-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or "
    "'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
UNSELECTED = (
    'spec.template.metadata.labels: Invalid value: {"a":"c"}: `selector` does not match template '
    "`labels`"
)
RESTART = 'spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"'
NEGATIVE = "must be greater than or equal to 0"
POLICY = "spec/template/spec/restartPolicy"
DEADLINE = "spec/template/spec/activeDeadlineSeconds"
ROLLING = "spec/updateStrategy/rollingUpdate"

CASES = [
    *((name, "", GONE, []) for name in OBJECTS),
    (RS, "spec/replicas", -1, [f"spec.replicas: Invalid value: -1: {NEGATIVE}"]),
    (RS, "spec/template/metadata/labels/a", "c", [UNSELECTED]),
    (RS, POLICY, "Never", [RESTART]),
    (
        RS,
        DEADLINE,
        5,
        [
            "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in "
            "ReplicaSet is not Supported"
        ],
    ),
    (
        RS,
        "spec/selector",
        {},
        ["spec.selector: Invalid value: {}: empty selector is invalid for deployment"],
    ),
    (DS, "spec/template/metadata/labels/a", "c", [UNSELECTED]),
    (
        DS,
        "spec/selector",
        {},
        ["spec.selector: Invalid value: {}: empty selector is invalid for daemonset"],
    ),
    (
        DS,
        "spec/updateStrategy/type",
        "Odd",
        [
            'spec.updateStrategy: Unsupported value: {"Type":"Odd","RollingUpdate":null}: '
            'supported values: "RollingUpdate", "OnDelete"'
        ],
    ),
    (
        DS,
        ROLLING,
        {"maxSurge": 1},
        [
            "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when "
            "maxUnavailable is non-zero"
        ],
    ),
    (
        DS,
        ROLLING,
        {"maxUnavailable": 0},
        [
            "spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when "
            "maxSurge is 0"
        ],
    ),
    (
        DS,
        ROLLING,
        {"maxUnavailable": "120%"},
        [
            'spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: "120%": must not be '
            "greater than 100%"
        ],
    ),
    (
        STS,
        "spec/podManagementPolicy",
        "Odd",
        ["spec.podManagementPolicy: Invalid value: \"Odd\": must be 'OrderedReady' or 'Parallel'"],
    ),
    (
        STS,
        "spec/updateStrategy",
        {"type": "OnDelete", "rollingUpdate": {"partition": 1}},
        [
            'spec.updateStrategy.rollingUpdate: Invalid value: {"Partition":1,"MaxUnavailable":'
            "null}: only allowed for updateStrategy 'RollingUpdate'"
        ],
    ),
    (
        STS,
        "spec/updateStrategy",
        {"type": "Odd"},
        [
            'spec.updateStrategy: Invalid value: {"Type":"Odd","RollingUpdate":null}: must be '
            "'RollingUpdate' or 'OnDelete'"
        ],
    ),
    (
        STS,
        ROLLING,
        {"partition": -1, "maxUnavailable": 0},
        [
            f"spec.updateStrategy.rollingUpdate.partition: Invalid value: -1: {NEGATIVE}",
            "spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: 0: cannot be 0",
        ],
    ),
    (
        STS,
        "spec/persistentVolumeClaimRetentionPolicy",
        {"whenDeleted": "Keep"},
        [
            "spec.persistentVolumeClaimRetentionPolicy.whenDeleted: Unsupported value: "
            '"Keep": supported values: "Retain", "Delete"'
        ],
    ),
    (
        STS,
        "spec/ordinals",
        {"start": -1},
        [f"spec.ordinals.start: Invalid value: -1: {NEGATIVE}"],
    ),
    (STS, "spec/volumeClaimTemplates", [CLAIM], []),
    (
        STS,
        "spec/volumeClaimTemplates",
        [changed(CLAIM, "spec/accessModes", [])],
        [
            "spec.volumeClaimTemplates[0].spec.accessModes: Required value: at least 1 access "
            "mode is required"
        ],
    ),
    (
        STS,
        "spec/template/spec/containers/0/volumeMounts",
        [{"name": "data", "mountPath": "/d"}],
        ['spec.template.spec.containers[0].volumeMounts[0].name: Not found: "data"'],
    ),
    (STS, POLICY, "Never", [RESTART]),
    (RC, "spec/selector", {"a": "c"}, [UNSELECTED.replace('"c"', '"b"')]),
    (RC, "spec/template", GONE, ["spec.selector: Required value", "spec.template: Required value"]),
    (
        RC,
        DEADLINE,
        5,
        [
            "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in "
            "ReplicationController is not Supported"
        ],
    ),
    (
        "podtemplates",
        "template/spec/containers",
        [],
        ["template.spec.containers: Required value"],
    ),
    (
        DS,
        "spec/updateStrategy",
        {"type": "Odd", "rollingUpdate": {"maxSurge": "5%"}},
        [
            'spec.updateStrategy: Unsupported value: {"Type":"Odd","RollingUpdate":'
            '{"MaxUnavailable":0,"MaxSurge":"5%"}}: supported values: "RollingUpdate", "OnDelete"'
        ],
    ),
    (
        DEPLOY,
        "spec/strategy",
        {"type": "Odd"},
        [
            'spec.strategy: Unsupported value: {"Type":"Odd","RollingUpdate":null}: supported '
            'values: "Recreate", "RollingUpdate"'
        ],
    ),
    (
        STS,
        "spec/template/metadata/labels/!",
        "x",
        [BAD_LABEL, BAD_LABEL],
    ),
    (STS, "spec/template/spec/hostname", "No Name", []),
    (STS, "spec/template/spec/subdomain", "No Name", []),
    ("controllerrevisions", "data", GONE, ["data: Required value: data is mandatory"]),
    (
        "controllerrevisions",
        "data",
        [1],
        ["data: Required value: data must be a valid JSON object"],
    ),
    ("controllerrevisions", "revision", -1, [f"revision: Invalid value: -1: {NEGATIVE}"]),
]


@pytest.mark.parametrize(("name", "path", "value", "messages"), CASES)
def test_rules(name, path, value, messages):
    """Each invalid field gives exactly its messages."""
    base = copy.deepcopy(OBJECTS[name])
    if (name, path) == (RC, "spec/template"):
        del base["spec"]["selector"]
    obj = defaulted(changed(base, path, value))
    strategy(name).prepare_for_create(obj)
    assert texts(strategy(name).validate(obj)) == messages


IMMUTABLE = 'spec.selector: Invalid value: {"matchLabels":{"c":"d"}}: field is immutable'
UPDATES = [
    (RS, "spec/selector", [IMMUTABLE]),
    (DS, "spec/selector", [IMMUTABLE]),
    (STS, "spec/selector", [IMMUTABLE]),
]


@pytest.mark.parametrize(("name", "path", "messages"), UPDATES)
def test_immutable_selectors(name, path, messages):
    """Selectors are immutable, even if the new one matches the template."""
    old = defaulted(OBJECTS[name])
    new = changed(old, path, {"matchLabels": {"c": "d"}})
    new["spec"]["template"]["metadata"]["labels"] = {"c": "d"}
    assert texts(strategy(name).validate_update(new, old)) == messages


def test_revision_data_is_immutable():
    """The data of a controller revision is immutable."""
    old = OBJECTS["controllerrevisions"]
    new = changed(old, "data", {"a": 2})
    assert texts(strategy("controllerrevisions").validate_update(new, old)) == [
        'data: Invalid value: {"a":2}: field is immutable'
    ]


STATUSES = [
    (RS, {"replicas": 1, "readyReplicas": 2}, ["readyReplicas", "status.replicas"]),
    (RC, {"replicas": 1, "readyReplicas": 2}, ["readyReplicas", "status.replicas"]),
    (
        STS,
        {"replicas": 2, "readyReplicas": 1, "availableReplicas": 2},
        ["availableReplicas", "status.readyReplicas"],
    ),
    (
        RS,
        {"replicas": 2, "readyReplicas": 1, "availableReplicas": 2},
        ["availableReplicas", "readyReplicas"],
    ),
]


@pytest.mark.parametrize(("name", "status", "names"), STATUSES)
def test_status_count_limits(name, status, names):
    """Counts of a status cannot exceed the number of replicas."""
    small, big = names
    old = defaulted(OBJECTS[name])
    new = {**old, "status": status}
    assert texts(strategy(f"{name}/status").validate_update(new, old)) == [
        f"status.{small}: Invalid value: 2: cannot be greater than {big}"
    ]


@pytest.mark.parametrize("name", [RS, DEPLOY])
def test_terminating_replicas(name):
    """terminatingReplicas cannot be negative."""
    old = defaulted(OBJECTS[name])
    new = {**old, "status": {"replicas": 0, "terminatingReplicas": -1}}
    assert texts(strategy(f"{name}/status").validate_update(new, old)) == [
        f"status.terminatingReplicas: Invalid value: -1: {NEGATIVE}"
    ]


def test_collision_count():
    """collisionCount cannot decrease or be negative."""
    old = {**defaulted(OBJECTS[DS]), "status": {"collisionCount": 2}}
    new = {**old, "status": {"collisionCount": -1, "numberReady": -1}}
    assert texts(strategy("daemonsets/status").validate_update(new, old)) == [
        f"status.numberReady: Invalid value: -1: {NEGATIVE}",
        f"status.collisionCount: Invalid value: -1: {NEGATIVE}",
        "status.collisionCount: Invalid value: -1: cannot be decremented",
    ]


DEFAULTS = [
    (RS, "replicas", 1),
    (RC, "replicas", 1),
    (
        DS,
        "updateStrategy",
        {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
    ),
    (DS, "revisionHistoryLimit", 10),
    (
        STS,
        "updateStrategy",
        {"type": "RollingUpdate", "rollingUpdate": {"partition": 0, "maxUnavailable": 1}},
    ),
    (STS, "podManagementPolicy", "OrderedReady"),
    (
        STS,
        "persistentVolumeClaimRetentionPolicy",
        {"whenDeleted": "Retain", "whenScaled": "Retain"},
    ),
]


@pytest.mark.parametrize(("name", "field", "value"), DEFAULTS)
def test_defaults(name, field, value):
    """Missing fields get their defaults."""
    assert defaulted(OBJECTS[name])["spec"][field] == value


def test_rolling_updates_without_settings():
    """A stateful set with an explicit strategy type gets no default rollingUpdate."""
    obj = defaulted(changed(OBJECTS[STS], "spec/updateStrategy", {"type": "RollingUpdate"}))
    assert obj["spec"]["updateStrategy"] == {"type": "RollingUpdate"}


def test_generation_of_a_template():
    """Daemon sets count changes of their template in an annotation, which clients cannot set."""
    key = "deprecated.daemonset.template.generation"
    kind_strategy = strategy(DS)
    old = defaulted(OBJECTS[DS])
    kind_strategy.prepare_for_create(old)
    assert old["metadata"]["annotations"] == {key: "1"}
    annotated = changed(old, "metadata/annotations", {key: "7", "a": "b"})
    kind_strategy.prepare_for_update(annotated, old)
    assert annotated["metadata"]["annotations"] == {"a": "b", key: "1"}
    assert annotated["metadata"]["generation"] == 1
    reimaged = changed(old, "spec/template/spec/containers/0/image", "x:2")
    kind_strategy.prepare_for_update(reimaged, old)
    assert (reimaged["metadata"]["annotations"][key], reimaged["metadata"]["generation"]) == (
        "2",
        2,
    )
    strategy("daemonsets/status").prepare_for_update(annotated, reimaged)
    assert annotated["metadata"]["annotations"][key] == "2"


def test_generations_of_a_pod_template():
    """The generation of a pod template counts changes of its template only."""
    kind_strategy = strategy("podtemplates")
    old = defaulted(OBJECTS["podtemplates"])
    kind_strategy.prepare_for_create(old)
    for path, value, generation in (
        ("metadata/labels", {"a": "b"}, 1),
        ("template/spec/hostNetwork", True, 2),
    ):
        new = changed(old, path, value)
        kind_strategy.prepare_for_update(new, old)
        assert new["metadata"]["generation"] == generation


def test_warnings():
    """Names that are no DNS labels, and a negative history limit, give warnings."""
    renamed = changed(defaulted(OBJECTS[RS]), "metadata/name", "a.b")
    assert "a DNS label is recommended" in strategy(RS).warnings(renamed, None)[0]
    assert strategy(RS).warnings(renamed, renamed) == []
    endless = changed(defaulted(OBJECTS[STS]), "spec/revisionHistoryLimit", -1)
    assert strategy(STS).warnings(endless, endless) == [
        "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= "
        "0 is recommended"
    ]
    assert strategy(STS).check_name("a.b")


def _cells(name, obj):
    columns = SCHEME.columns(resource(name).group, resource(name).kind)
    row = columns.cells(obj, NOW)
    return dict(zip((column.name for column in columns.columns), row, strict=True))


CREATED = {"name": "x", "namespace": "n", "creationTimestamp": "2025-12-31T23:59:00Z"}
PODS = {"Containers": "c", "Images": "nginx:1"}
CELLS = [
    (
        RS,
        {"replicas": 2, "readyReplicas": 1},
        {"Desired": 1, "Current": 2, "Ready": 1, **PODS, "Selector": "a=b"},
    ),
    (
        RC,
        {"replicas": 2, "readyReplicas": 1},
        {"Desired": 1, "Current": 2, "Ready": 1, **PODS, "Selector": "a=b"},
    ),
    (STS, {"replicas": 2, "readyReplicas": 1}, {"Ready": "1/1", **PODS}),
    (
        DS,
        {
            "desiredNumberScheduled": 5,
            "currentNumberScheduled": 4,
            "numberReady": 3,
            "updatedNumberScheduled": 2,
            "numberAvailable": 1,
        },
        {
            "Desired": 5,
            "Current": 4,
            "Ready": 3,
            "Up-to-date": 2,
            "Available": 1,
            "Node Selector": "<none>",
            **PODS,
            "Selector": "a=b",
        },
    ),
]


@pytest.mark.parametrize(("name", "status", "cells"), CELLS)
def test_cells(name, status, cells):
    """Columns show current and desired numbers of pods."""
    obj = {**defaulted(OBJECTS[name]), "metadata": CREATED, "status": status}
    assert _cells(name, obj) == {"Name": "x", "Age": "60s", **cells}


def test_cells_of_a_revision():
    """Columns show the controller of a revision."""
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "controller": True}
    obj = OBJECTS["controllerrevisions"]
    assert _cells("controllerrevisions", obj)["Controller"] == "<none>"
    for version, controller in (("apps/v1", "statefulset.apps/s"), ("v1", "statefulset/s")):
        owned_revision = changed(
            obj, "metadata/ownerReferences", [{**owner, "apiVersion": version}]
        )
        assert _cells("controllerrevisions", owned_revision)["Controller"] == controller


def test_cells_of_a_pod_template():
    """Columns show containers and images of a pod template."""
    assert _cells("podtemplates", OBJECTS["podtemplates"]) == {
        "Name": "x",
        **PODS,
        "Pod Labels": "a=b",
    }
    columns = SCHEME.columns("", "PodTemplate").columns
    assert all(column.priority == 0 for column in columns)
