"""PATCH: JSON patch, merge patch and strategic merge patch over HTTP."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import pytest

from kapiserver.codecs import cbor

PATCHES = ("json", "merge", "strategic")


@pytest.fixture
def path(api, core):
    body = {"metadata": {"name": "x", "labels": {"a": "1"}}, "data": {"k": "v", "gone": "x"}}
    assert api.post(f"{core}/configmaps", body).status == 201
    return f"{core}/configmaps/x"


def test_merge(api, path):
    """A merge patch replaces values and removes those that are null."""
    response = api.patch(path, {"data": {"k": "w", "gone": None}})
    assert response.status == 200
    assert response.json["data"] == {"k": "w"}


def test_json(api, path):
    """A JSON patch applies its operations in order."""
    operations = [
        {"op": "test", "path": "/data/k", "value": "v"},
        {"op": "replace", "path": "/data/k", "value": "w"},
        {"op": "remove", "path": "/data/gone"},
    ]
    response = api.patch(path, operations, "json")
    assert response.status == 200
    assert response.json["data"] == {"k": "w"}


def test_strategic(api, deployment):
    """A strategic merge patch merges containers by name."""
    container = {"name": "two", "image": "j"}
    body = {"spec": {"template": {"spec": {"containers": [container]}}}}
    response = api.patch(deployment, body, "strategic")
    assert response.status == 200, response.body
    containers = response.json["spec"]["template"]["spec"]["containers"]
    assert [item["name"] for item in containers] == ["two", "c"]
    assert containers[0]["imagePullPolicy"] == "Always"
    assert response.json["metadata"]["generation"] == 2


def test_strategic_in_cbor(api, deployment):
    """A strategic merge patch may be in CBOR, with its directives."""
    container = {"name": "c", "image": "j", "$retainKeys": ["name", "image"]}
    body = {"spec": {"template": {"spec": {"containers": [container]}}}}
    type_ = "application/strategic-merge-patch+cbor"
    response = api.patch(deployment, cbor.encode_value(body), type_)
    assert response.status == 200, response.body
    assert response.json["spec"]["template"]["spec"]["containers"][0]["image"] == "j"
    for wrong in (b"", b"{}", cbor.encode_value([]), b"\xa2\x41a\x01\x41a\x01"):
        assert api.patch(deployment, wrong, type_).status == 400


def test_scale(api, deployment):
    """PATCH of /scale works on the Scale."""
    response = api.patch(f"{deployment}/scale", {"spec": {"replicas": 4}})
    assert response.status == 200, response.body
    assert response.json["kind"] == "Scale"
    assert api.get(deployment).json["spec"]["replicas"] == 4


def test_status(api, deployment):
    """PATCH of /status changes the status only."""
    body = {"status": {"replicas": 3, "observedGeneration": 1}, "spec": {"replicas": 9}}
    response = api.patch(f"{deployment}/status", body)
    assert response.status == 200, response.body
    assert response.json["status"]["replicas"] == 3
    assert response.json["spec"]["replicas"] == 1


def test_version_of_the_url(api, namespace):
    """A patch is applied to the object in the version of the path."""
    base = "/apis/autoscaling/{}/namespaces/" + namespace + "/horizontalpodautoscalers"
    body = {
        "metadata": {"name": "h"},
        "spec": {
            "maxReplicas": 3,
            "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"},
        },
    }
    assert api.post(base.format("v2"), body).status == 201
    patch = {"spec": {"targetCPUUtilizationPercentage": 66}}
    response = api.patch(base.format("v1") + "/h", patch, "strategic")
    assert response.status == 200, response.body
    autoscaler = api.get(base.format("v2") + "/h").json
    assert autoscaler["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] == 66


def test_no_change(api, path):
    """A patch that changes nothing writes nothing."""
    before = api.get(path)
    assert api.patch(path, {}).body == before.body
    assert api.patch(path, [], "json").body == before.body
    assert api.patch(path, {}, "strategic").body == before.body


def test_dry_run(api, path):
    """dryRun=All stores nothing."""
    before = api.get(path)
    assert api.patch(f"{path}?dryRun=All", {"data": {"k": "w"}}).json["data"]["k"] == "w"
    assert api.get(path).body == before.body


def test_conditional(api, path):
    """A patch with a resourceVersion is a conflict if the object has another one."""
    response = api.patch(path, {"metadata": {"resourceVersion": "1"}, "data": {"k": "w"}})
    assert response.status == 409
    version = api.get(path).json["metadata"]["resourceVersion"]
    body = {"metadata": {"resourceVersion": version}, "data": {"k": "w"}}
    assert api.patch(path, body).status == 200


def test_unknown_fields(api, path):
    """Unknown fields cause warnings, or an error under Strict."""
    response = api.patch(path, {"what": 1})
    assert response.status == 200
    assert response.warnings == ['299 - "unknown field \\"what\\""']
    response = api.patch(f"{path}?fieldValidation=Strict", {"what": 1})
    assert response.status == 422
    assert 'strict decoding error: unknown field "what"' in response.message


def test_strict_spelling(api, path):
    """Duplicate and unknown fields in the patch document itself are strict errors too."""
    response = api.patch(path, b'{"data":{"k":"a","k":"b"}}')
    assert response.json["data"]["k"] == "b"
    assert response.warnings == ['299 - "duplicate field \\"data.k\\""']
    body = b'[{"op":"test","path":"/data/k","value":"b","oops":1,"op":"test"}]'
    assert api.patch(path, body, "json").warnings == [
        '299 - "json patch unknown field \\"[0].oops\\""',
        '299 - "json patch duplicate field \\"[0].op\\""',
    ]
    response = api.patch(f"{path}?fieldValidation=Strict", body, "json")
    assert response.status == 422
    assert response.message.endswith(
        'strict decoding error: json patch unknown field "[0].oops", json patch duplicate field '
        '"[0].op"'
    )


def test_unsupported(api, path):
    """Another type of patch is a 415."""
    for type_ in ("application/json", "text/plain", ""):
        response = api.patch(path, {}, type_)
        assert response.status == 415
        assert (response.message, response.json["details"]) == ("415: Unsupported Media Type", {})


def test_missing(api, core):
    """A patch of a missing object is a 404, even for kinds that a PUT may create."""
    for kind, plural in itertools.product(PATCHES, ("configmaps", "services", "events")):
        response = api.patch(f"{core}/{plural}/none", [] if kind == "json" else {}, kind)
        assert (response.status, response.json["message"]) == (404, f'{plural} "none" not found')


REFUSED = [
    ("json", b"{", 400, "invalid JSON patch"),
    ("json", {}, 400, "error decoding patch: json: cannot unmarshal object into Go value of type "
     "[]handlers.jsonPatchOp"),
    ("json", [{"op": "remove", "path": "/nothing"}], 422,
     "the server rejected our request due to an error in our request"),
    ("json", [{"op": "test", "path": "/data/k", "value": "z"}], 422,
     "the server rejected our request due to an error in our request"),
    ("json", [{"op": "add", "path": "/data", "value": "text"}], 422, None),
    ("json", [{"op": "replace", "path": "", "value": "text"}], 422, None),
    ("json", [{"op": "replace", "path": "/kind", "value": "Secret"}], 422, None),
    ("json", [{"op": "test", "path": "", "value": 1}] * 10001, 413,
     "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got "
     "10001"),
    ("merge", b"[", 400, "invalid JSON patch"),
    ("merge", [], 400, "error decoding patch: json: cannot unmarshal array into Go value of type "
     "map[string]interface {}"),
    ("merge", {"data": 1}, 422, None),
    ("merge", {"metadata": {"name": "y"}}, 400,
     "the name of the object (y) does not match the name on the URL (x)"),
    ("merge", {"metadata": {"namespace": "y"}}, 400,
     "the namespace of the provided object does not match the namespace sent on the request"),
    ("merge", {"metadata": None}, 400, None),
    ("strategic", b"", 400, "invalid JSON patch"),
    ("strategic", b"nonsense", 400, None),
    ("strategic", {"metadata": {"ownerReferences": [{"name": "x"}]}}, 422, None),
    ("strategic", {"data": {"$patch": "explode"}}, 400,
     "unknown patch type: explode in map: map[$patch:explode]"),
    ("strategic", {"data": ["x"]}, 422, None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"kind": "Secret"}, "converting (v1.Secret) to (core.ConfigMap): unknown conversion"),
        ({"kind": "Odd"}, 'no kind "Odd" is registered for version "v1" in scheme '
         '"pkg/api/legacyscheme/scheme.go:30"'),
        ({"apiVersion": "a/b/c"}, "unexpected GroupVersion string: a/b/c"),
    ],
)  # fmt: skip
def test_other_kinds(api, path, change, reason):
    """A merge patch cannot change kind or apiVersion; a strategic merge patch ignores them."""
    response = api.patch(path, change, "merge")
    assert (response.status, response.message.rpartition('}": ')[2]) == (422, reason)
    response = api.patch(path, change, "strategic")
    assert (response.status, response.json["kind"], response.json["apiVersion"]) == (
        200,
        "ConfigMap",
        "v1",
    )


@pytest.mark.parametrize(("kind", "body", "status", "message"), REFUSED)
def test_refused(api, path, kind, body, status, message):
    """An invalid or inapplicable patch is an error and changes nothing."""
    before = api.get(path).body
    response = api.patch(path, body, kind)
    assert response.status == status, response.body
    assert message is None or response.message == message
    assert api.get(path).body == before


def test_force(api, path):
    """`force` is an error for patches other than apply."""
    response = api.patch(f"{path}?force=true", {})
    assert response.status == 422
    assert "may not be specified for non-apply patch" in response.message


def test_concurrent_patches(api, path):
    """Concurrent patches without a resourceVersion are all applied."""
    with ThreadPoolExecutor(8) as pool:
        bodies = [{"data": {f"key{number}": "v"}} for number in range(40)]
        answers = list(pool.map(lambda body: api.patch(path, body), bodies))
    assert {response.status for response in answers} == {200}
    assert {f"key{number}" for number in range(40)} < set(api.get(path).json["data"])
