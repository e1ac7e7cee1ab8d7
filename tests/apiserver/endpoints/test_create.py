"""POST: created objects, defaults, warnings and errors."""

import pytest

from kapiserver.storage.errors import ResourceVersionSet
from tests.e2e.encodings import read_encoded

POD = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c", "image": "nginx"}]},
}


def config_map(name="x", **more):
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name}, **more}


def test_created(api, core, namespace):
    """The response to a create is 201 with the object as stored."""
    response = api.post(f"{core}/configmaps", config_map(data={"b": "2", "a": "1"}))
    assert response.status == 201
    assert response.headers["Content-Type"] == "application/json"
    created = response.json
    assert list(created) == ["kind", "apiVersion", "metadata", "data"]
    assert list(created["metadata"])[:5] == [
        "name", "namespace", "uid", "resourceVersion", "creationTimestamp",
    ]  # fmt: skip
    assert created["metadata"]["namespace"] == namespace
    assert response.body.endswith(b'"data":{"a":"1","b":"2"}}\n')
    assert api.get(f"{core}/configmaps/x").body == response.body


@pytest.mark.parametrize(
    ("path", "obj", "lists"),
    [
        (
            "/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices",
            {"addressType": "IPv4", "endpoints": [], "ports": []},
            ["endpoints", "ports"],
        ),
        ("/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles", {"rules": []}, ["rules"]),
    ],
)
def test_empty_lists(api, namespace, path, obj, lists):
    """Protobuf has no empty lists: the response to a write shows null in every encoding, as later
    reads do, and so does that to a dry run."""
    collection = path.format(namespace)
    null = dict.fromkeys(lists)
    for name in ("json", "yaml", "cbor"):
        accept = f"application/{name}"
        body = {"metadata": {"name": name}, **obj}
        dry_run = api.post(f"{collection}?dryRun=All", body, accept=accept)
        created = api.post(collection, body, accept=accept)
        body["metadata"]["labels"] = {"a": "b"}
        updated = api.put(f"{collection}/{name}", body, accept=accept)
        for response in (dry_run, created, updated):
            assert response.status in (200, 201), response.body
            tree = read_encoded(name, response.body)
            assert {field: tree[field] for field in lists} == null, name
        assert api.get(f"{collection}/{name}", accept=accept).body == updated.body


def test_resource_version_is_the_only_500(api, core):
    """A new object with a resourceVersion gets 500 without a reason, as from kube-apiserver. Suites
    that fail on a 500 allow exactly this one, `ResourceVersionSet.MESSAGE`."""
    body = config_map("versioned")
    body["metadata"]["resourceVersion"] = "5"
    assert api.post(f"{core}/configmaps", body).json == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": ResourceVersionSet.MESSAGE,
        "code": 500,
    }
    for cleared in ("0", "-1", "x"):
        body["metadata"] |= {"name": f"cleared{cleared}", "resourceVersion": cleared}
        assert api.post(f"{core}/configmaps", body).status == 201


def test_defaults(api, core):
    """Omitted fields get their defaults before the object is stored."""
    response = api.post(f"{core}/pods", POD)
    assert response.status == 201, response.body
    spec = response.json["spec"]
    assert spec["restartPolicy"] == "Always"
    assert spec["containers"][0]["imagePullPolicy"] == "Always"
    assert response.json["status"]["phase"] == "Pending"


def test_kind_from_the_url(api, core):
    """A body without kind and apiVersion gets those of the path."""
    response = api.post(f"{core}/configmaps", {"metadata": {"name": "bare"}})
    assert response.status == 201, response.body
    assert response.json["kind"] == "ConfigMap"


def test_generated_name(api, core):
    """generateName is followed by five random characters."""
    response = api.post(f"{core}/configmaps", {"metadata": {"generateName": "made-"}})
    assert response.status == 201
    name = response.json["metadata"]["name"]
    assert name.startswith("made-")
    assert len(name) == len("made-") + 5


def test_exists(api, core):
    """A create with an existing name is a 409 AlreadyExists."""
    assert api.post(f"{core}/configmaps", config_map()).status == 201
    response = api.post(f"{core}/configmaps", config_map())
    assert response.status == 409
    assert response.json["reason"] == "AlreadyExists"
    assert response.message == 'configmaps "x" already exists'
    assert response.json["details"] == {"name": "x", "kind": "configmaps"}


def test_dry_run(api, core):
    """dryRun=All returns the object with its defaults and a uid and stores nothing."""
    response = api.post(f"{core}/configmaps?dryRun=All", config_map())
    assert response.status == 201, response.body
    assert response.json["metadata"]["uid"]
    assert api.get(f"{core}/configmaps/x").status == 404


MEDIA = ["application/yaml", "application/vnd.kubernetes.protobuf", "application/cbor"]


@pytest.mark.parametrize("media", MEDIA)
def test_round_trip(api, core, media):
    """A response in any encoding is a valid request body in that encoding."""
    api.post(f"{core}/configmaps", config_map(data={"k": "v"}))
    response = api.get(f"{core}/configmaps/x", accept=media)
    assert response.headers["Content-Type"] == media
    updated = api.put(f"{core}/configmaps/x", response.body, type=media, accept=media)
    assert updated.status == 200, updated.body
    assert updated.body == response.body


def test_unknown_fields_warn(api, core):
    """By default, unknown and duplicate fields cause warnings, and unknown fields are dropped."""
    body = b'{"metadata":{"name":"w"},"data":{"a":"1","a":"2"},"what":1}'
    response = api.post(f"{core}/configmaps", body)
    assert response.status == 201
    assert response.warnings == [
        '299 - "duplicate field \\"data.a\\""',
        '299 - "unknown field \\"what\\""',
    ]
    assert "what" not in response.json


def test_unknown_fields_ignored(api, core):
    """With fieldValidation=Ignore, unknown fields are dropped without a warning."""
    body = {"metadata": {"name": "w"}, "what": 1}
    response = api.post(f"{core}/configmaps?fieldValidation=Ignore", body)
    assert response.status == 201
    assert response.warnings == []


def test_unknown_fields_refused(api, apps):
    """With fieldValidation=Strict, unknown and duplicate fields are a 400 that lists all of
    them."""
    body = (
        b'{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"w"},'
        b'"spec":{"foo":1,"paused":true,"paused":true}}'
    )
    response = api.post(f"{apps}/deployments?fieldValidation=Strict", body)
    assert response.status == 400
    assert response.json["reason"] == "BadRequest"
    assert response.message == (
        'Deployment in version "v1" cannot be handled as a Deployment: strict decoding error: '
        'unknown field "spec.foo", duplicate field "spec.paused"'
    )
    body = b'{"metadata":{"name":"w"},"a\\"\\n\\u0001":1}'
    response = api.post(f"{apps}/deployments?fieldValidation=Strict", body)
    assert response.message.endswith(r'unknown field "a\"\n\x01"')


def test_missing_namespace(api):
    """A create in a namespace that does not exist is a 404."""
    response = api.post("/api/v1/namespaces/nowhere/configmaps", config_map())
    assert response.status == 404
    assert response.message == 'namespaces "nowhere" not found'
    assert response.json["details"] == {"name": "nowhere", "kind": "namespaces"}


def test_terminating_namespace(api):
    """A create in a terminating namespace is a 403 with the cause NamespaceTerminating."""
    body = {"metadata": {"name": "ending", "finalizers": ["example.com/hold"]}}
    assert api.post("/api/v1/namespaces", body).status == 201
    assert api.delete("/api/v1/namespaces/ending").status == 200
    response = api.post("/api/v1/namespaces/ending/configmaps", config_map())
    assert response.status == 403
    assert response.message == (
        'configmaps "x" is forbidden: unable to create new content in namespace ending because it '
        "is being terminated"
    )
    assert response.json["details"] == {
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
    """An invalid object is a 422 with a cause for each error."""
    response = api.post(f"{core}/configmaps", config_map("Not_A_Name"))
    assert response.status == 422
    assert response.json["reason"] == "Invalid"
    assert response.json["details"]["causes"][0]["field"] == "metadata.name"
    assert response.message.startswith('ConfigMap "Not_A_Name" is invalid: metadata.name: Invalid')


def test_repeated_owners(api, core):
    """Duplicate owner references are dropped with a warning."""
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "1-2-3"}
    body = config_map()
    body["metadata"]["ownerReferences"] = [owner, owner]
    response = api.post(f"{core}/configmaps", body)
    assert response.status == 201, response.body
    assert response.json["metadata"]["ownerReferences"] == [owner]
    assert "duplicate UID(s) observed: 1-2-3" in response.warnings[0]


def test_autoscaling_versions(api, namespace):
    """An object created in one version can be read in another."""
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
    response = api.post(base.format("v1"), body)
    assert response.status == 201, response.body
    assert response.json["apiVersion"] == "autoscaling/v1"
    autoscaler = api.get(base.format("v2") + "/h").json
    assert autoscaler["apiVersion"] == "autoscaling/v2"
    assert autoscaler["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] == 50


_EMPTY_FIELDS = {"labels": {}, "annotations": {}, "ownerReferences": [], "finalizers": []}
_EMPTY_SPEC = {"tolerations": [], "nodeSelector": {}, "securityContext": {}, "hostAliases": None}


def test_response_is_what_a_restarted_server_returns(make_server):
    """A write's response, encoded from the tree in memory, equals the JSON of the stored bytes,
    also if the body or a patch has empty fields and characters that Go escapes."""
    server = make_server()
    maps, pods = "/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/pods"
    container = {**POD["spec"]["containers"][0], "env": [{"name": "E", "value": ""}], "args": []}
    pod = {
        **POD,
        "metadata": {"name": "p", **_EMPTY_FIELDS},
        "spec": {**_EMPTY_SPEC, "containers": [container]},
    }
    responses = {
        f"{maps}/x": server.api.post(maps, config_map(data={"b": "1.5e3 <&> \u2028", "a": ""})),
        f"{maps}/y": server.api.post(maps, config_map("y", data={}, immutable=False)),
        f"{pods}/p": server.api.post(pods, pod),
    }
    _assert_stored(server, responses)
    responses[f"{pods}/p"] = server.api.patch(
        f"{pods}/p", {"metadata": {"labels": {"b": "", "a": "1"}}, "spec": _EMPTY_SPEC}
    )
    responses[f"{maps}/y"] = server.api.patch(f"{maps}/y", {"data": {"k": "v"}, "binaryData": {}})
    responses[f"{maps}/x"] = server.api.put(
        f"{maps}/x", config_map(binaryData={"b": "AA==", "a": ""}, data=None)
    )
    _assert_stored(server, responses)


def _assert_stored(server, responses):
    """Each response is that of a GET after all derived values were dropped."""
    server.loop.call_soon_threadsafe(server.running.cluster.server.stores.free_memory)
    for path, response in responses.items():
        assert response.status in (200, 201), response.body
        assert server.api.get(path).body == response.body
