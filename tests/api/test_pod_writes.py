"""Strategies and defaults of pods and templates: values that writes set, copy or drop."""

import copy

import pytest

from tests.objects import DEPLOYMENT, GONE, POD, changed, defaulted, strategy, texts

C = "spec/containers/0"
ARMOR = "container.apparmor.security.beta.kubernetes.io/"


def created(pod):
    """Return the pod as create stores it."""
    stored = defaulted(pod)
    strategy("pods").prepare_for_create(stored)
    assert texts(strategy("pods").validate(stored)) == []
    strategy("pods").canonicalize(stored)
    return stored


def test_own_labels_spread():
    """matchLabelKeys of topology spread constraints become requirements."""
    spread = {
        "maxSkew": 1,
        "topologyKey": "z",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {},
        "matchLabelKeys": ["hash", "gone"],
    }
    pod = changed(POD, "metadata/labels", {"hash": "1"})
    pod = changed(pod, "spec/topologySpreadConstraints", [spread])
    (stored,) = created(pod)["spec"]["topologySpreadConstraints"]
    assert stored["labelSelector"] == {
        "matchExpressions": [{"key": "hash", "operator": "In", "values": ["1"]}]
    }


LOCAL = {"type": "Localhost", "localhostProfile": "p"}
PROFILES = [  # annotation, pod profile, container profile, expected profile, whether it warns
    ("runtime/default", None, None, {"type": "RuntimeDefault"}, True),
    ("unconfined", None, None, {"type": "Unconfined"}, True),
    ("localhost/p", None, None, LOCAL, True),
    ("localhost/p", {"type": "Unconfined"}, None, None, None),
    ("localhost/p", LOCAL, None, None, False),
    ("localhost/p", None, LOCAL, LOCAL, False),
    ("", None, None, None, True),
]


@pytest.mark.parametrize(
    ("annotation", "pod_profile", "container_profile", "expected", "warns"), PROFILES
)
def test_app_armor(annotation, pod_profile, container_profile, expected, warns):
    """AppArmor annotations of new pods are copied into fields."""
    key = f"{ARMOR}{POD['spec']['containers'][0]['name']}"
    pod = changed(POD, "metadata/annotations", {key: annotation})
    if pod_profile:
        pod = changed(pod, "spec/securityContext", {"appArmorProfile": pod_profile})
    if container_profile:
        pod = changed(pod, f"{C}/securityContext", {"appArmorProfile": container_profile})
    if warns is None:  # annotation and field contradict each other
        assert texts(strategy("pods").validate(defaulted(pod))) != []
        return
    deprecated = 'deprecated since v1.30; use the "appArmorProfile" field instead'
    warnings = strategy("pods").warnings(defaulted(pod), None)
    assert warnings == ([f"metadata.annotations[{key}]: {deprecated}"] if warns else [])
    context = created(pod)["spec"]["containers"][0].get("securityContext")
    assert (context or {}).get("appArmorProfile") == expected
    windows = changed(changed(POD, "spec/os", {"name": "windows"}), "metadata/annotations", {})
    windows["metadata"]["annotations"][key] = annotation
    assert "securityContext" not in created(windows)["spec"]["containers"][0]


DISABLED = [  # a disabled field, and its path in a spec
    ("schedulingGroup", {"podGroupName": "g"}),
    ("evictionResponders", [{"name": "example.com/a"}]),
    ("containers/0/lifecycle", {"stopSignal": "SIGTERM"}),
    ("containers/0/livenessProbe/httpGet/protocol", "HTTP2"),
    ("containers/0/lifecycle/preStop/httpGet/protocol", "HTTP2"),
    ("containers/0/readinessProbe/grpc/mode", "TLS"),
    ("containers/0/volumeMounts/0/bindMountOptions", ["noexec"]),
    ("volumes/0/emptyDir/mode", 0o777),
    ("volumes/1/configMap/defaultUser", 1),
    ("volumes/1/configMap/items/0/user", 1),
    ("volumes/2/projected/sources/0/serviceAccountToken/user", 1),
]
FULL = {
    **POD["spec"],
    "containers": [{
        **POD["spec"]["containers"][0],
        "livenessProbe": {"httpGet": {"port": 80}},
        "readinessProbe": {"grpc": {"port": 80}},
        "volumeMounts": [{"name": "a", "mountPath": "/a"}],
    }],
    "volumes": [
        {"name": "a", "emptyDir": {}},
        {"name": "b", "configMap": {"name": "b", "items": [{"key": "k", "path": "p"}]}},
        {"name": "c", "projected": {"sources": [{"serviceAccountToken": {"path": "p"}}]}},
    ],
}  # fmt: skip
HOLDERS = {
    "pods": "spec",
    "podtemplates": "template/spec",
    "replicationcontrollers": "spec/template/spec",
    "deployments": "spec/template/spec",
    "jobs": "spec/template/spec",
    "cronjobs": "spec/jobTemplate/spec/template/spec",
}


@pytest.mark.parametrize("kind", HOLDERS)
@pytest.mark.parametrize(("path", "value"), DISABLED)
def test_disabled_fields(kind, path, value):
    """Disabled fields are dropped, unless the old pod has them."""

    def holding(spec):
        return changed({"metadata": {"name": "x"}}, HOLDERS[kind], spec)

    def spec_of(obj):
        for step in HOLDERS[kind].split("/"):
            obj = obj[step]
        return obj

    spec = copy.deepcopy(FULL)
    if "preStop" in path:
        spec = changed(spec, "containers/0/lifecycle", {"preStop": {"httpGet": {"port": 80}}})
    used = changed(spec, path, value)
    new = holding(used)
    strategy(kind).prepare_for_create(new)
    assert spec_of(new) == spec
    new, old = holding(used), holding(spec)
    strategy(kind).prepare_for_update(new, old)
    assert spec_of(new) == spec
    assert "generation" not in new["metadata"]
    new, old = holding(used), holding(used)
    strategy(kind).prepare_for_update(new, old)
    assert spec_of(new) == used


def test_disabled_status_fields():
    """Disabled status fields are dropped, unless the old pod has them."""
    mount = {"name": "v", "mountPath": "/v", "volumeStatus": {"image": {"imageRef": "x"}}}
    used = {
        "volumeHealth": [{"name": "v"}],
        "nodeAllocatableResourceClaimStatuses": [{"resourceClaimName": "r", "containers": ["c"]}],
        "containerStatuses": [{"name": "c", "volumeMounts": [mount]}],
    }
    old = defaulted(POD)
    new = changed(old, "status", used)
    strategy("pods/status").prepare_for_update(new, old)
    mount["volumeStatus"] = {}
    assert new["status"] == {"containerStatuses": [{"name": "c", "volumeMounts": [mount]}]}


LIMITS = {"resources": {"limits": {"cpu": "1", "hugepages-2Mi": "4Mi"}}}
WHOLE = [  # pod-level resources, expected pod-level resources
    ({}, {}),
    ({"limits": {"cpu": "3"}}, {
        "limits": {"cpu": "3", "hugepages-2Mi": "4Mi"},
        "requests": {"cpu": "1", "hugepages-2Mi": "4Mi"},
    }),
    ({"limits": {"memory": "1Gi"}, "requests": {"cpu": "2"}}, {
        "limits": {"hugepages-2Mi": "4Mi", "memory": "1Gi"},
        "requests": {"cpu": "2", "hugepages-2Mi": "4Mi", "memory": "1Gi"},
    }),
    ({"requests": {"hugepages-2Mi": "4Mi"}}, {"requests": {"hugepages-2Mi": "4Mi"}}),
]  # fmt: skip


@pytest.mark.parametrize(("pod_resources", "expected"), WHOLE)
def test_pod_level_requests(pod_resources, expected):
    """Pod-level requests default to those of the containers."""
    pod = changed(POD, C, {**POD["spec"]["containers"][0], **LIMITS})
    assert defaulted(changed(pod, "spec/resources", pod_resources))["spec"]["resources"] == expected


def test_normalization():
    """A negative grace period of a pod becomes 1 second, and old annotations are dropped."""
    stage = "pod.beta.kubernetes.io/init-container"
    pod = changed(POD, "spec/terminationGracePeriodSeconds", -5)
    pod = defaulted(changed(pod, "metadata/annotations", {f"{stage}s": "[]", "a": "b"}))
    assert pod["spec"]["terminationGracePeriodSeconds"] == 1
    assert pod["metadata"]["annotations"] == {"a": "b"}
    path = "spec/template/"
    deployment = changed(DEPLOYMENT, f"{path}spec/terminationGracePeriodSeconds", -5)
    notes = {f"{stage}-statuses": "[]"}
    deployment = defaulted(changed(deployment, f"{path}metadata/annotations", notes))
    assert deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == -5
    assert "annotations" not in deployment["spec"]["template"]["metadata"]


def resized(new, old):
    """Return the spec after an update of `pods/resize`."""
    strategy("pods/resize").prepare_for_update(new, old)
    return new["spec"]


def test_resize_changes_resources_only():
    """Resize restores all fields but resources, unless containers do not match."""
    old = defaulted(changed(POD, "spec/resources", {"limits": {"cpu": "2"}}))
    sizes = {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}
    new = changed(changed(old, f"{C}/resources", sizes), f"{C}/image", "other")
    new = changed(changed(new, "spec/nodeName", "n"), "spec/resources/limits/cpu", "3")
    expected = changed(changed(old, f"{C}/resources", sizes), "spec/resources/limits/cpu", "3")
    assert resized(new, old) == expected["spec"]
    assert "resources" not in resized(changed(old, "spec/resources", GONE), old)
    renamed = changed(old, f"{C}/name", "other")
    assert resized(copy.deepcopy(renamed), old) == renamed["spec"]
    with_init_container = changed(
        old, "spec/initContainers", [{**old["spec"]["containers"][0], "name": "i"}]
    )
    assert resized(copy.deepcopy(with_init_container), old) == with_init_container["spec"]
    (message,) = texts(strategy("pods/resize").validate_update(with_init_container, old))
    assert message == (
        "spec.initContainers: Forbidden: initContainers may not be added or removed on resize"
    )
