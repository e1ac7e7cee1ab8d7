"""Defaulting: omitted fields are set, set fields are kept."""

import pytest

from kapiserver.api.core.pods.images import tag_of
from kapiserver.api.defaulting import compile_defaults
from kapiserver.api.types import Kind, Type, field, int32
from tests.objects import AUTOSCALER, DEPLOYMENT, POD, SERVICE, changed, defaulted


def value_at_path(obj, path):
    for step in path.split("/"):
        obj = obj[int(step)] if isinstance(obj, list) else obj.get(step)
    return obj


C = "spec/containers/0"
CASES = [
    # object, fields of the client, fields after defaulting
    (POD, {}, {"spec/restartPolicy": "Always", "spec/dnsPolicy": "ClusterFirst"}),
    (POD, {}, {"spec/terminationGracePeriodSeconds": 30, "spec/securityContext": {}}),
    (POD, {}, {"spec/schedulerName": "default-scheduler", "spec/enableServiceLinks": True}),
    (POD, {"spec/enableServiceLinks": False}, {"spec/enableServiceLinks": False}),
    (POD, {"spec/terminationGracePeriodSeconds": 0}, {"spec/terminationGracePeriodSeconds": 0}),
    (POD, {}, {"spec/volumes/0/emptyDir": {}, "spec/volumes/1/emptyDir": None}),
    (POD, {}, {f"{C}/imagePullPolicy": "Always", f"{C}/terminationMessagePolicy": "File"}),
    (POD, {f"{C}/image": "a/b:1"}, {f"{C}/imagePullPolicy": "IfNotPresent"}),
    (POD, {}, {f"{C}/ports/0/protocol": "TCP", f"{C}/ports/0/hostPort": None}),
    (POD, {"spec/hostNetwork": True}, {f"{C}/ports/0/hostPort": 80}),
    (
        POD,
        {f"{C}/resources": {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}},
        {f"{C}/resources/requests": {"cpu": "1", "memory": "1Gi"}},
    ),
    (POD, {f"{C}/resources": {"limits": {"cpu": "1500u"}}}, {f"{C}/resources/limits/cpu": "2m"}),
    (POD, {"spec/serviceAccount": "a"}, {"spec/serviceAccountName": "a"}),
    (POD, {"spec/serviceAccountName": "a"}, {"spec/serviceAccount": "a"}),
    (
        POD,
        {f"{C}/livenessProbe": {"httpGet": {"port": 1}, "periodSeconds": 5}},
        {
            f"{C}/livenessProbe": {
                "httpGet": {"path": "/", "port": 1, "scheme": "HTTP"},
                "timeoutSeconds": 1,
                "periodSeconds": 5,
                "successThreshold": 1,
                "failureThreshold": 3,
            }
        },
    ),
    (POD, {"status/podIP": "a"}, {"status/podIPs": [{"ip": "a"}]}),
    (DEPLOYMENT, {}, {"spec/replicas": 1, "spec/revisionHistoryLimit": 10}),
    (DEPLOYMENT, {"spec/replicas": 0}, {"spec/replicas": 0}),
    (
        DEPLOYMENT,
        {},
        {
            "spec/strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
            }
        },
    ),
    (DEPLOYMENT, {"spec/strategy": {"type": "Recreate"}}, {"spec/strategy/rollingUpdate": None}),
    (
        DEPLOYMENT,
        {"spec/template/spec/containers/0/resources": {"limits": {"cpu": "1"}}},
        {"spec/template/spec/containers/0/resources": {"limits": {"cpu": "1"}}},
    ),
    (DEPLOYMENT, {}, {"spec/template/spec/enableServiceLinks": None}),
    (SERVICE, {}, {"spec/type": "ClusterIP", "spec/sessionAffinity": "None"}),
    (SERVICE, {}, {"spec/ports/0/targetPort": 80, "spec/externalTrafficPolicy": None}),
    (SERVICE, {"spec/type": "NodePort"}, {"spec/externalTrafficPolicy": "Cluster"}),
    (SERVICE, {"spec/type": "LoadBalancer"}, {"spec/allocateLoadBalancerNodePorts": True}),
    (SERVICE, {"spec/type": "ExternalName"}, {"spec/internalTrafficPolicy": None}),
    (
        SERVICE,
        {"spec/sessionAffinity": "ClientIP"},
        {"spec/sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}}},
    ),
    (AUTOSCALER, {}, {"spec/minReplicas": 1, "spec/metrics/0/resource/name": "cpu"}),
    (
        AUTOSCALER,
        {"spec/behavior": {"scaleUp": {"selectPolicy": "Min"}}},
        {
            "spec/behavior/scaleUp/selectPolicy": "Min",
            "spec/behavior/scaleUp/stabilizationWindowSeconds": 0,
            "spec/behavior/scaleDown/selectPolicy": "Max",
            "spec/behavior/scaleDown/stabilizationWindowSeconds": None,
        },
    ),
]


@pytest.mark.parametrize(("obj", "given_fields", "read"), CASES)
def test_defaults(obj, given_fields, read):
    """Omitted fields get defaults; set fields are kept."""
    for path, value in given_fields.items():
        obj = changed(obj, path, value)
    stored = defaulted(obj)
    assert {path: value_at_path(stored, path) for path in read} == read


def test_secret_from_plain_text():
    """stringData overrides data of the same key and is never returned."""
    secret = {
        "kind": "Secret",
        "apiVersion": "v1",
        "metadata": {"name": "s"},
        "data": {"b": "Yg==", "z": "eg=="},
        "stringData": {"z": "é", "a": ""},
    }
    stored = defaulted(secret)
    assert stored["data"] == {"a": "", "b": "Yg==", "z": "w6k="}
    assert list(stored["data"]) == ["a", "b", "z"]
    assert "stringData" not in stored
    assert stored["type"] == "Opaque"


def test_namespace_label():
    """A namespace is labelled with its name."""
    stored = defaulted({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "n"}})
    assert stored["metadata"]["labels"] == {"kubernetes.io/metadata.name": "n"}


@pytest.mark.parametrize(
    ("image", "tag"),
    [
        ("nginx", "latest"),
        ("nginx:latest", "latest"),
        ("nginx:1.25", "1.25"),
        ("registry:5000/a/b", "latest"),
        ("registry:5000/a/b:v1", "v1"),
        ("a@sha256:" + "0" * 64, ""),
        ("a:v1@sha256:" + "0" * 64, "v1"),
        ("Upper", ""),
        ("", ""),
        ("a:", ""),
        ("a b", ""),
        ("a/" * 100_000, ""),
    ],
)
def test_image_tags(image, tag):
    """The tag of an image determines its pull policy."""
    assert tag_of(image) == tag


class Leafy(Type):
    """A type with declared defaults and nested objects of its own type."""

    count: int32 = field(1, default=7)
    flag: bool | None = field(2, default=False)
    word: str = field(3, default="")
    below: "Leafy | None" = field(4)
    many: "list[Leafy]" = field(5)


class Quiet(Type):
    """A type without defaults."""

    word: str = field(1)


class Whole(Kind):
    """A kind with fields of both types."""

    quiet: Quiet = field(1)
    leafy: Leafy = field(2)
    named: "dict[str, Leafy]" = field(3)


def test_declared_defaults():
    """Declared defaults are set at all levels; a pointer to zero is kept."""
    tree = {
        "quiet": {},
        "leafy": {"below": {"flag": True}, "many": [{"count": 1}]},
        "named": {"a": {}},
    }
    compile_defaults(Whole, {})(tree)
    assert tree == {
        "quiet": {},
        "leafy": {
            "count": 7,
            "flag": False,
            "below": {"count": 7, "flag": True},
            "many": [{"count": 1, "flag": False}],
        },
        "named": {"a": {"count": 7, "flag": False}},
    }
    assert list(tree["leafy"]) == ["count", "flag", "below", "many"]


def test_absent_struct():
    """An absent struct gets its defaults."""
    tree = {}
    compile_defaults(Whole, {})(tree)
    assert tree == {"leafy": {"count": 7, "flag": False}}


def test_function_before_declaration():
    """The default function of a type runs before its declared defaults."""

    def function(tree):
        tree["count"] = tree.get("count") or 9

    tree = {"leafy": {}}
    compile_defaults(Whole, {Leafy: function})(tree)
    assert tree["leafy"]["count"] == 9
