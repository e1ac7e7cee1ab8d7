"""POST: what is created, answered and refused."""

import pytest

POD = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c", "image": "nginx"}]},
}


def config_map(name="x", **more):
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name}, **more}


def test_created(api, core, namespace):
    """A created object comes back with 201 and everything the server adds."""
    answer = api.post(f"{core}/configmaps", config_map(data={"b": "2", "a": "1"}))
    assert answer.status == 201
    assert answer.headers["Content-Type"] == "application/json"
    created = answer.json
    assert list(created) == ["kind", "apiVersion", "metadata", "data"]
    assert list(created["metadata"])[:5] == [
        "name", "namespace", "uid", "resourceVersion", "creationTimestamp",
    ]  # fmt: skip
    assert created["metadata"]["namespace"] == namespace
    assert answer.body.endswith(b'"data":{"a":"1","b":"2"}}\n')
    assert api.get(f"{core}/configmaps/x").body == answer.body


def test_defaults(api, core):
    """What a client leaves out is filled in before the object is stored."""
    answer = api.post(f"{core}/pods", POD)
    assert answer.status == 201, answer.body
    spec = answer.json["spec"]
    assert spec["restartPolicy"] == "Always"
    assert spec["containers"][0]["imagePullPolicy"] == "Always"
    assert answer.json["status"]["phase"] == "Pending"


def test_kind_from_the_url(api, core):
    """A body without kind and apiVersion is what the URL says."""
    answer = api.post(f"{core}/configmaps", {"metadata": {"name": "bare"}})
    assert answer.status == 201, answer.body
    assert answer.json["kind"] == "ConfigMap"


def test_generated_name(api, core):
    """generateName makes a name with five characters more."""
    answer = api.post(f"{core}/configmaps", {"metadata": {"generateName": "made-"}})
    assert answer.status == 201
    name = answer.json["metadata"]["name"]
    assert name.startswith("made-")
    assert len(name) == len("made-") + 5


def test_exists(api, core):
    """The same name twice is 409 AlreadyExists."""
    assert api.post(f"{core}/configmaps", config_map()).status == 201
    answer = api.post(f"{core}/configmaps", config_map())
    assert answer.status == 409
    assert answer.json["reason"] == "AlreadyExists"
    assert answer.message == 'configmaps "x" already exists'
    assert answer.json["details"] == {"name": "x", "kind": "configmaps"}


def test_dry_run(api, core):
    """dryRun=All answers as if and stores nothing."""
    answer = api.post(f"{core}/configmaps?dryRun=All", config_map())
    assert answer.status == 201, answer.body
    assert answer.json["metadata"]["uid"]
    assert api.get(f"{core}/configmaps/x").status == 404


MEDIA = ["application/yaml", "application/vnd.kubernetes.protobuf", "application/cbor"]


@pytest.mark.parametrize("media", MEDIA)
def test_round_trip(api, core, media):
    """What one encoding answers can be sent back in that encoding."""
    api.post(f"{core}/configmaps", config_map(data={"k": "v"}))
    answer = api.get(f"{core}/configmaps/x", accept=media)
    assert answer.headers["Content-Type"] == media
    again = api.put(f"{core}/configmaps/x", answer.body, type=media, accept=media)
    assert again.status == 200, again.body
    assert again.body == answer.body


def test_unknown_fields_warn(api, core):
    """Unknown and duplicate fields are warned of and dropped unless the client says else."""
    body = b'{"metadata":{"name":"w"},"data":{"a":"1","a":"2"},"what":1}'
    answer = api.post(f"{core}/configmaps", body)
    assert answer.status == 201
    assert answer.warnings == [
        '299 - "duplicate field \\"data.a\\""',
        '299 - "unknown field \\"what\\""',
    ]
    assert "what" not in answer.json


def test_unknown_fields_ignored(api, core):
    """fieldValidation=Ignore drops them in silence."""
    body = {"metadata": {"name": "w"}, "what": 1}
    answer = api.post(f"{core}/configmaps?fieldValidation=Ignore", body)
    assert answer.status == 201
    assert answer.warnings == []


def test_unknown_fields_refused(api, apps):
    """fieldValidation=Strict refuses them, all in one message."""
    body = (
        b'{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"w"},'
        b'"spec":{"foo":1,"paused":true,"paused":true}}'
    )
    answer = api.post(f"{apps}/deployments?fieldValidation=Strict", body)
    assert answer.status == 400
    assert answer.json["reason"] == "BadRequest"
    assert answer.message == (
        'Deployment in version "v1" cannot be handled as a Deployment: strict decoding error: '
        'unknown field "spec.foo", duplicate field "spec.paused"'
    )


def test_missing_namespace(api):
    """Nothing is created in a namespace that is not there."""
    answer = api.post("/api/v1/namespaces/nowhere/configmaps", config_map())
    assert answer.status == 404
    assert answer.message == 'namespaces "nowhere" not found'
    assert answer.json["details"] == {"name": "nowhere", "kind": "namespaces"}


def test_terminating_namespace(api):
    """Nothing is created in a namespace on its way out."""
    body = {"metadata": {"name": "ending", "finalizers": ["example.com/hold"]}}
    assert api.post("/api/v1/namespaces", body).status == 201
    assert api.delete("/api/v1/namespaces/ending").status == 200
    answer = api.post("/api/v1/namespaces/ending/configmaps", config_map())
    assert answer.status == 403
    assert answer.message == (
        'configmaps "x" is forbidden: unable to create new content in namespace ending because it '
        "is being terminated"
    )
    assert answer.json["details"] == {
        "name": "x",
        "kind": "configmaps",
        "causes": [
            {
                "reason": "NamespaceTerminating",
                "message": "namespace ending is being terminated",
                "field": "metadata.namespace",
            }
        ],
    }


def test_invalid(api, core):
    """An object that breaks rules is 422 with a cause for each."""
    answer = api.post(f"{core}/configmaps", config_map("Not_A_Name"))
    assert answer.status == 422
    assert answer.json["reason"] == "Invalid"
    assert answer.json["details"]["causes"][0]["field"] == "metadata.name"
    assert answer.message.startswith('ConfigMap "Not_A_Name" is invalid: metadata.name: Invalid')


def test_repeated_owners(api, core):
    """Owner references that repeat are dropped with a warning."""
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "1-2-3"}
    body = config_map()
    body["metadata"]["ownerReferences"] = [owner, owner]
    answer = api.post(f"{core}/configmaps", body)
    assert answer.status == 201, answer.body
    assert answer.json["metadata"]["ownerReferences"] == [owner]
    assert "duplicate UID(s) observed: 1-2-3" in answer.warnings[0]


def test_autoscaling_versions(api, namespace):
    """An object created in one version is read in another."""
    base = "/apis/autoscaling/{}/namespaces/" + namespace + "/horizontalpodautoscalers"
    body = {
        "kind": "HorizontalPodAutoscaler",
        "apiVersion": "autoscaling/v1",
        "metadata": {"name": "h"},
        "spec": {
            "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"},
            "maxReplicas": 3,
            "targetCPUUtilizationPercentage": 50,
        },
    }
    answer = api.post(base.format("v1"), body)
    assert answer.status == 201, answer.body
    assert answer.json["apiVersion"] == "autoscaling/v1"
    found = api.get(base.format("v2") + "/h").json
    assert found["apiVersion"] == "autoscaling/v2"
    assert found["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] == 50
