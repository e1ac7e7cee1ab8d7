"""DELETE of objects and collections."""

import pytest


@pytest.fixture
def path(api, core):
    assert api.post(f"{core}/configmaps", {"metadata": {"name": "x"}}).status == 201
    return f"{core}/configmaps/x"


def test_deleted(api, path):
    """A deletion returns a Status that names the object."""
    uid = api.get(path).json["metadata"]["uid"]
    response = api.delete(path)
    assert response.status == 200
    assert response.json == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {"name": "x", "kind": "configmaps", "uid": uid},
    }
    assert api.get(path).status == 404
    assert api.delete(path).status == 404


def test_pod(api, core):
    """Deleting an unscheduled pod returns the pod."""
    body = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    api.post(f"{core}/pods", body)
    response = api.delete(f"{core}/pods/p", {"gracePeriodSeconds": 0})
    assert response.status == 200
    assert response.json["kind"] == "Pod"
    assert api.get(f"{core}/pods/p").status == 404


def test_finalizers(api, core):
    """An object with finalizers is marked as deleted and stays until they are removed."""
    body = {"metadata": {"name": "x", "finalizers": ["example.com/hold"]}}
    assert api.post(f"{core}/configmaps", body).status == 201
    response = api.delete(f"{core}/configmaps/x")
    assert response.status == 200
    assert response.json["metadata"]["deletionTimestamp"]
    assert response.json["metadata"]["deletionGracePeriodSeconds"] == 0
    response = api.patch(f"{core}/configmaps/x", {"metadata": {"finalizers": None}})
    assert "finalizers" not in response.json["metadata"]
    assert response.status == 200, response.body
    assert api.get(f"{core}/configmaps/x").status == 404


def test_accepted(api, core):
    """A delete with orphanDependents=false of an object with finalizers is a 202."""
    body = {"metadata": {"name": "x", "finalizers": ["example.com/hold"]}}
    api.post(f"{core}/configmaps", body)
    response = api.delete(f"{core}/configmaps/x", {"orphanDependents": False})
    assert response.status == 202


def test_propagation(api, core):
    """Foreground and Orphan are recorded as finalizers."""
    for policy, finalizer in (("Foreground", "foregroundDeletion"), ("Orphan", "orphan")):
        api.post(f"{core}/configmaps", {"metadata": {"name": finalizer.lower()}})
        response = api.delete(f"{core}/configmaps/{finalizer.lower()}?propagationPolicy={policy}")
        assert response.status == 200, response.body
        assert response.json["metadata"]["finalizers"] == [finalizer]


@pytest.mark.parametrize(
    ("preconditions", "words"),
    [
        ({"uid": "other"}, "the UID in the precondition (other) does not match the UID in record"),
        ({"resourceVersion": "1"},
         "the ResourceVersion in the precondition (1) does not match the ResourceVersion in"),
    ],
)  # fmt: skip
def test_preconditions(api, path, preconditions, words):
    """A delete with the wrong uid or resourceVersion is a 409."""
    response = api.delete(path, {"preconditions": preconditions})
    assert response.status == 409
    assert words in response.message


MEDIA = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf",
         "application/cbor"]  # fmt: skip


@pytest.mark.parametrize("media", MEDIA)
@pytest.mark.parametrize("version", ["v1", "meta.k8s.io/v1"])
def test_options(api, path, media, version):
    """DeleteOptions are accepted in every encoding, in version v1 and meta.k8s.io/v1."""
    from kapiserver.api.scheme import Scheme
    from kapiserver.codecs.codec_factory import CodecFactory

    codecs = CodecFactory(Scheme())
    (media_type,) = [candidate for candidate in codecs.media_types if candidate.name == media]
    options = {"kind": "DeleteOptions", "apiVersion": version, "dryRun": ["All"]}
    response = api.delete(path, codecs.serializer_for(media_type).encode(options), type=media)
    assert response.status == 200, response.body
    assert api.get(path).status == 200


def test_dry_run(api, path):
    """dryRun=All deletes nothing."""
    assert api.delete(f"{path}?dryRun=All").status == 200
    assert api.get(path).status == 200


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
def test_system_namespaces(api, name):
    """System namespaces cannot be deleted."""
    response = api.delete(f"/api/v1/namespaces/{name}")
    assert response.status == 403
    assert (
        response.message == f'namespaces "{name}" is forbidden: this namespace may not be deleted'
    )
    assert api.get(f"/api/v1/namespaces/{name}").json["status"] == {"phase": "Active"}


@pytest.mark.parametrize("name", ["system-node-critical", "system-cluster-critical"])
def test_system_priority_classes(api, name):
    """System priority classes cannot be deleted."""
    response = api.delete(f"/apis/scheduling.k8s.io/v1/priorityclasses/{name}")
    assert (response.status, response.message) == (
        403,
        f'priorityclasses.scheduling.k8s.io "{name}" is forbidden: '
        "this is a system priority class and cannot be deleted",
    )


@pytest.mark.parametrize(
    ("below", "query", "warned"),
    [
        ("", "", 1),
        ("/j", "", 1),
        ("/j", "?propagationPolicy=Background", 0),
        ("/j", "?propagationPolicy=Orphan", 0),
        ("/j", "?orphanDependents=false", 0),
    ],
)
def test_pods_of_jobs(api, namespace, below, query, warned):
    """A delete of a job without a propagation policy warns that its pods are preserved."""
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    spec = {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}
    api.post(jobs, {"metadata": {"name": "j"}, "spec": {"template": {"spec": spec}}})
    response = api.delete(f"{jobs}{below}{query}")
    job_warnings = [text for text in response.warnings if "child pods are preserved" in text]
    assert (response.status, len(job_warnings)) == (200, warned)


REFUSED = [
    ({"kind": "ConfigMap", "apiVersion": "v1"}, 400,
     'no kind "ConfigMap" is registered for version "v1" in scheme '
     '"pkg/apis/meta/internalversion/scheme/register.go:27"'),
    (b"{", 400, None),
    ({"gracePeriodSeconds": "x"}, 400, None),
    ({"dryRun": ["Some"]}, 422, 'Unsupported value: ["Some"]: supported values: "All"'),
    ({"propagationPolicy": "Sideways"}, 422, 'Unsupported value: "Sideways": supported values: '
     '"Foreground", "Background", "Orphan", "nil"'),
    ({"propagationPolicy": "Orphan", "orphanDependents": True}, 422,
     "orphanDependents and deletionPropagation cannot be both set"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "status", "message"), REFUSED)
def test_refused(api, path, body, status, message):
    """Invalid options are errors and delete nothing."""
    response = api.delete(path, body)
    assert response.status == status, response.body
    assert message is None or message in response.message
    assert api.get(path).status == 200


def test_collection(api, core):
    """A collection is deleted by selector and returned as a list."""
    for number in range(4):
        body = {"metadata": {"name": f"m{number}", "labels": {"odd": str(number % 2)}}}
        api.post(f"{core}/configmaps", body)
    response = api.delete(f"{core}/configmaps?labelSelector=odd%3D1")
    assert response.status == 200
    assert response.json["kind"] == "ConfigMapList"
    assert [item["metadata"]["name"] for item in response.json["items"]] == ["m1", "m3"]
    remaining = api.get(f"{core}/configmaps").json["items"]
    assert [item["metadata"]["name"] for item in remaining] == ["m0", "m2"]
    assert api.delete(f"{core}/configmaps").status == 200
    assert api.get(f"{core}/configmaps").json["items"] == []


def test_no_collection_of_all(api):
    """Namespaced objects cannot be deleted across namespaces."""
    assert api.delete("/api/v1/configmaps").status == 405
    assert api.delete("/api/v1/namespaces").status == 405


def test_the_largest_generation(api):
    """Deleting an object of the largest generation wraps it, as in Go. A larger one fits no CBOR
    and no Protobuf, and ended watches."""
    meta = {"name": "largest", "generation": 2**63 - 1, "finalizers": ["example.com/stay"]}
    path = "/apis/storage.k8s.io/v1/volumeattributesclasses"
    obj = {"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttributesClass", "metadata": meta}
    assert api.post(path, obj | {"driverName": "d", "parameters": {"a": "b"}}).status == 201
    assert api.delete(f"{path}/largest").status == 200
    assert api.get(f"{path}/largest").json["metadata"]["generation"] == -(2**63)
    assert api.get(f"{path}/largest", accept="application/cbor").status == 200
    api.patch(f"{path}/largest", {"metadata": {"finalizers": None}})
