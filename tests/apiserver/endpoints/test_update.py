"""PUT: conflicts, names, versions and subresources."""

import pytest

POD = {
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c", "image": "one"}]},
}


@pytest.fixture
def path(api, core):
    assert api.post(f"{core}/configmaps", {"metadata": {"name": "x"}}).status == 201
    return f"{core}/configmaps/x"


def test_replaces(api, path):
    """PUT replaces the object and increases its resourceVersion; the uid stays."""
    before = api.get(path).json
    response = api.put(path, before | {"data": {"k": "v"}})
    assert response.status == 200
    after = response.json
    assert after["data"] == {"k": "v"}
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert int(after["metadata"]["resourceVersion"]) > int(before["metadata"]["resourceVersion"])


def test_same_bytes(api, path):
    """PUT of an unchanged object writes nothing."""
    before = api.get(path)
    assert api.put(path, before.json).body == before.body


def test_stale(api, path):
    """PUT with an old resourceVersion is a 409 Conflict."""
    before = api.get(path).json
    api.put(path, before | {"data": {"k": "v"}})
    response = api.put(path, before | {"data": {"k": "w"}})
    assert response.status == 409
    assert response.message == (
        'Operation cannot be fulfilled on configmaps "x": the object has been modified; please '
        "apply your changes to the latest version and try again"
    )


def test_unconditional(api, path):
    """PUT without a resourceVersion overwrites the object if the kind allows it."""
    response = api.put(path, {"metadata": {"name": "x"}, "data": {"k": "v"}})
    assert response.status == 200
    assert response.json["data"] == {"k": "v"}


def test_wrong_uid(api, path):
    """PUT with another uid is a 409."""
    response = api.put(path, {"metadata": {"name": "x", "uid": "other"}})
    assert response.status == 409
    assert "Precondition failed: UID in precondition: other" in response.message


@pytest.mark.parametrize("version", ["", "5"])
def test_deleted_object_with_its_uid(api, path, version):
    """PUT of a deleted object is a 404, whatever uid and resourceVersion it names. A kind that PUT
    may create has no object with that uid: 409."""
    before = api.get(path).json
    api.delete(path)
    response = api.put(
        path, before | {"metadata": before["metadata"] | {"resourceVersion": version}}
    )
    assert response.status == 404
    assert response.message == 'configmaps "x" not found'
    leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases/gone"
    created = api.put(
        leases, {"metadata": {"name": "gone", "uid": "x", "resourceVersion": version}}
    )
    assert created.status == 409
    assert "Precondition failed: UID in precondition: x, UID in object meta: " in created.message


def test_dry_run(api, path):
    """dryRun=All stores nothing."""
    before = api.get(path)
    response = api.put(f"{path}?dryRun=All", before.json | {"data": {"k": "v"}})
    assert response.json["data"] == {"k": "v"}
    assert api.get(path).body == before.body


def test_missing(api, core):
    """PUT of a missing object is a 404."""
    response = api.put(f"{core}/configmaps/none", {"metadata": {"name": "none"}})
    assert response.status == 404


def test_names(api, path):
    """Name, namespace, kind and version of the body must match the path."""
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
        response = api.put(path, body)
        assert response.status == 400
        assert response.message == message


def test_other_version(api, namespace):
    """A body in another version of the kind is a 400."""
    path = f"/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers"
    body = {
        "kind": "HorizontalPodAutoscaler", "apiVersion": "autoscaling/v1",
        "metadata": {"name": "h"},
        "spec": {
            "maxReplicas": 1,
            "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"},
        },
    }  # fmt: skip
    response = api.post(path, body)
    assert response.status == 400
    assert response.message == (
        "the API version in the data (autoscaling/v1) does not match the expected API version "
        "(autoscaling/v2)"
    )


def test_status(api, core):
    """PUT of /status changes the status only, and PUT of the object keeps the status."""
    pod = api.post(f"{core}/pods", POD).json
    pod["status"] = pod["status"] | {"phase": "Running"}
    pod["metadata"]["labels"] = {"l": "1"}
    response = api.put(f"{core}/pods/p", pod)
    assert response.json["status"]["phase"] == "Pending"
    pod = response.json
    pod["status"]["phase"] = "Running"
    pod["spec"]["containers"][0]["image"] = "two"
    response = api.put(f"{core}/pods/p/status", pod)
    assert response.status == 200, response.body
    assert response.json["status"]["phase"] == "Running"
    assert response.json["spec"]["containers"][0]["image"] == "one"


def test_scale(api, deployment):
    """PUT of a Scale changes the replicas and increases the generation."""
    scale = api.get(f"{deployment}/scale").json
    scale["spec"]["replicas"] = 5
    response = api.put(f"{deployment}/scale", scale)
    assert response.status == 200, response.body
    assert response.json["spec"] == {"replicas": 5}
    current = api.get(deployment).json
    assert current["spec"]["replicas"] == 5
    assert current["metadata"]["generation"] == 2


def test_scale_conflict(api, deployment):
    """PUT of a Scale with an old resourceVersion is a 409."""
    scale = api.get(f"{deployment}/scale").json
    api.patch(deployment, {"metadata": {"labels": {"x": "y"}}})
    assert api.put(f"{deployment}/scale", scale).status == 409


def test_negative_scale(api, deployment):
    """Negative replicas are a 422."""
    scale = api.get(f"{deployment}/scale").json
    scale["spec"]["replicas"] = -1
    response = api.put(f"{deployment}/scale", scale)
    assert response.status == 422
    assert "must be greater than or equal to 0" in response.message


def test_finalize(api):
    """PUT of /finalize changes the finalizers of a namespace."""
    created = api.post("/api/v1/namespaces", {"metadata": {"name": "fin"}}).json
    assert created["spec"] == {"finalizers": ["kubernetes"]}
    created["spec"] = {"finalizers": ["kubernetes", "example.com/more"]}
    response = api.put("/api/v1/namespaces/fin/finalize", created)
    assert response.status == 200, response.body
    assert response.json["spec"]["finalizers"] == ["kubernetes", "example.com/more"]


TOPOLOGIES = [{"matchLabelExpressions": [{"key": "a", "values": []}]}]


def test_declared_rules_come_last(api):
    """Errors of declarative validation follow those of handwritten validation. Required values have
    no value in the message."""
    classes = "/apis/storage.k8s.io/v1/storageclasses"
    body = {"metadata": {"name": "declared"}, "provisioner": "example.com/disk"}
    created = api.post(classes, body)
    assert created.status == 201
    wrong = {**created.json, "provisioner": "", "allowedTopologies": TOPOLOGIES}
    response = api.put(f"{classes}/declared", wrong)
    assert response.status == 422
    path = "allowedTopologies[0].matchLabelExpressions[0].values"
    assert response.json["details"]["causes"] == [
        {"reason": "FieldValueRequired", "message": "Required value", "field": path},
        {
            "reason": "FieldValueInvalid",
            "message": "Invalid value: null: field is immutable",
            "field": "provisioner",
        },
        {"reason": "FieldValueRequired", "message": "Required value", "field": "provisioner"},
    ]
    assert api.delete(f"{classes}/declared").status == 200
