"""PUT: conflicts, names, subresources."""

import pytest

POD = {
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c", "image": "one"}]},
}


@pytest.fixture
def path(api, core):
    assert api.post(f"{core}/configmaps", {"metadata": {"name": "x"}}).status == 201
    return f"{core}/configmaps/x"


@pytest.fixture
def deployment(api, apps):
    body = {
        "metadata": {"name": "d"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    }
    assert api.post(f"{apps}/deployments", body).status == 201
    return f"{apps}/deployments/d"


def test_replaces(api, path):
    """PUT replaces the object and moves its version; identity stays."""
    before = api.get(path).json
    answer = api.put(path, before | {"data": {"k": "v"}})
    assert answer.status == 200
    after = answer.json
    assert after["data"] == {"k": "v"}
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert int(after["metadata"]["resourceVersion"]) > int(before["metadata"]["resourceVersion"])


def test_same_bytes(api, path):
    """PUT of what is there writes nothing."""
    before = api.get(path)
    assert api.put(path, before.json).body == before.body


def test_stale(api, path):
    """A version that moved on is 409 Conflict."""
    before = api.get(path).json
    api.put(path, before | {"data": {"k": "v"}})
    answer = api.put(path, before | {"data": {"k": "w"}})
    assert answer.status == 409
    assert answer.message == (
        'Operation cannot be fulfilled on configmaps "x": the object has been modified; please '
        "apply your changes to the latest version and try again"
    )


def test_unconditional(api, path):
    """PUT without a version overwrites where the kind allows it."""
    answer = api.put(path, {"metadata": {"name": "x"}, "data": {"k": "v"}})
    assert answer.status == 200
    assert answer.json["data"] == {"k": "v"}


def test_wrong_uid(api, path):
    """PUT of another object of the same name is 409."""
    answer = api.put(path, {"metadata": {"name": "x", "uid": "other"}})
    assert answer.status == 409
    assert "Precondition failed: UID in precondition: other" in answer.message


def test_dry_run(api, path):
    """dryRun=All stores nothing."""
    before = api.get(path)
    answer = api.put(f"{path}?dryRun=All", before.json | {"data": {"k": "v"}})
    assert answer.json["data"] == {"k": "v"}
    assert api.get(path).body == before.body


def test_missing(api, core):
    """PUT of what is not there is 404."""
    answer = api.put(f"{core}/configmaps/none", {"metadata": {"name": "none"}})
    assert answer.status == 404


def test_names(api, path):
    """The body's name, namespace and version must be the URL's."""
    cases = [
        ({"metadata": {"name": "y"}},
         "the name of the object (y) does not match the name on the URL (x)"),
        ({"metadata": {}},
         "the name of the object (x based on URL) was undeterminable: name must be provided"),
        ({"metadata": {"name": "x", "namespace": "other"}},
         "the namespace of the provided object does not match the namespace sent on the request"),
        ({"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "x"}},
         'Secret in version "v1" cannot be handled as a ConfigMap: converting (v1.Secret) to '
         "(core.ConfigMap): unknown conversion"),
        ({"kind": "ConfigMap", "apiVersion": "v2", "metadata": {"name": "x"}},
         'ConfigMap in version "v2" cannot be handled as a ConfigMap: no kind "ConfigMap" is '
         'registered for version "v2" in scheme "pkg/api/legacyscheme/scheme.go:30"'),
    ]  # fmt: skip
    for body, message in cases:
        answer = api.put(path, body)
        assert answer.status == 400
        assert answer.message == message


def test_other_version(api, namespace):
    """A body of another version of the same kind is refused."""
    path = f"/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers"
    body = {
        "kind": "HorizontalPodAutoscaler", "apiVersion": "autoscaling/v1",
        "metadata": {"name": "h"},
        "spec": {
            "maxReplicas": 1,
            "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"},
        },
    }  # fmt: skip
    answer = api.post(path, body)
    assert answer.status == 400
    assert answer.message == (
        "the API version in the data (autoscaling/v1) does not match the expected API version "
        "(autoscaling/v2)"
    )


def test_status_apart(api, core):
    """/status changes the status alone, and PUT of the object leaves it alone."""
    pod = api.post(f"{core}/pods", POD).json
    pod["status"] = pod["status"] | {"phase": "Running"}
    pod["metadata"]["labels"] = {"l": "1"}
    answer = api.put(f"{core}/pods/p", pod)
    assert answer.json["status"]["phase"] == "Pending"
    pod = answer.json
    pod["status"]["phase"] = "Running"
    pod["spec"]["containers"][0]["image"] = "two"
    answer = api.put(f"{core}/pods/p/status", pod)
    assert answer.status == 200, answer.body
    assert answer.json["status"]["phase"] == "Running"
    assert answer.json["spec"]["containers"][0]["image"] == "one"


def test_scale(api, deployment):
    """PUT of a Scale changes the replicas and begins a generation."""
    scale = api.get(f"{deployment}/scale").json
    scale["spec"]["replicas"] = 5
    answer = api.put(f"{deployment}/scale", scale)
    assert answer.status == 200, answer.body
    assert answer.json["spec"] == {"replicas": 5}
    found = api.get(deployment).json
    assert found["spec"]["replicas"] == 5
    assert found["metadata"]["generation"] == 2


def test_scale_conflict(api, deployment):
    """A Scale of an old version is 409."""
    scale = api.get(f"{deployment}/scale").json
    api.patch(deployment, {"metadata": {"labels": {"x": "y"}}})
    assert api.put(f"{deployment}/scale", scale).status == 409


def test_negative_scale(api, deployment):
    """Nobody runs fewer than no replicas."""
    scale = api.get(f"{deployment}/scale").json
    scale["spec"]["replicas"] = -1
    answer = api.put(f"{deployment}/scale", scale)
    assert answer.status == 422
    assert "must be greater than or equal to 0" in answer.message


def test_finalize(api):
    """PUT of /finalize changes a namespace's finalizers alone."""
    created = api.post("/api/v1/namespaces", {"metadata": {"name": "fin"}}).json
    assert created["spec"] == {"finalizers": ["kubernetes"]}
    created["spec"] = {"finalizers": ["kubernetes", "example.com/more"]}
    answer = api.put("/api/v1/namespaces/fin/finalize", created)
    assert answer.status == 200, answer.body
    assert answer.json["spec"]["finalizers"] == ["kubernetes", "example.com/more"]


TOPOLOGIES = [{"matchLabelExpressions": [{"key": "a", "values": []}]}]


def test_declared_rules_come_last(api):
    """What types declare is told after all handwritten rules, in their place, without a value."""
    classes = "/apis/storage.k8s.io/v1/storageclasses"
    body = {"metadata": {"name": "declared"}, "provisioner": "example.com/disk"}
    made = api.post(classes, body)
    assert made.status == 201
    wrong = {**made.json, "provisioner": "", "allowedTopologies": TOPOLOGIES}
    answer = api.put(f"{classes}/declared", wrong)
    assert answer.status == 422
    where = "allowedTopologies[0].matchLabelExpressions[0].values"
    assert answer.json["details"]["causes"] == [
        {"reason": "FieldValueRequired", "message": "Required value", "field": where},
        {
            "reason": "FieldValueInvalid",
            "message": "Invalid value: null: field is immutable",
            "field": "provisioner",
        },
        {"reason": "FieldValueRequired", "message": "Required value", "field": "provisioner"},
    ]
    assert api.delete(f"{classes}/declared").status == 200
