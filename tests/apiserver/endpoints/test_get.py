"""GET of a single object: encodings, formats, subresources and errors."""

import pytest


@pytest.fixture
def path(api, core):
    body = {"metadata": {"name": "x", "annotations": {"a": "<&>"}}, "data": {"k": "v"}}
    assert api.post(f"{core}/configmaps", body).status == 201
    return f"{core}/configmaps/x"


def test_missing(api, core):
    """A missing object is a 404 NotFound with details."""
    response = api.get(f"{core}/configmaps/none")
    assert response.status == 404
    assert response.json == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'configmaps "none" not found',
        "reason": "NotFound",
        "details": {"name": "none", "kind": "configmaps"},
        "code": 404,
    }


def test_escapes(api, path):
    """JSON responses escape <, > and & as Go's encoder does."""
    assert rb'"a":"\u003c\u0026\u003e"' in api.get(path).body


@pytest.mark.parametrize(
    ("query", "agent", "pretty"),
    [("", "x", False), ("?pretty=true", "x", True), ("", "curl/8", True),
     ("?pretty=0", "curl/8", False)],
)  # fmt: skip
def test_pretty(api, path, query, agent, pretty):
    """Command line clients such as curl and requests with pretty=true get indented JSON."""
    response = api.get(path + query, headers={"User-Agent": agent})
    assert response.body.startswith(b'{\n  "kind": "ConfigMap",\n') is pretty
    assert response.json == api.get(path).json


def test_not_acceptable(api, path):
    """A client that accepts none of the media types gets a 406."""
    response = api.get(path, accept="text/html")
    assert response.status == 406
    assert response.json["reason"] == "NotAcceptable"
    assert response.message == (
        "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, "
        "application/vnd.kubernetes.protobuf, application/cbor"
    )
    assert response.json["details"] == {}


@pytest.mark.parametrize(
    ("accept", "media"),
    [
        ("*/*", "application/json"),
        ("application/*", "application/json"),
        ("application/yaml", "application/yaml"),
        ("text/html, application/vnd.kubernetes.protobuf;q=0.5, application/cbor;q=0.9",
         "application/cbor"),
    ],
)  # fmt: skip
def test_negotiates(api, path, accept, media):
    """The response has the supported media type that the client prefers."""
    assert api.get(path, accept=accept).headers["Content-Type"] == media


def test_partial_metadata(api, path):
    """as=PartialObjectMetadata returns the metadata only."""
    accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    response = api.get(path, accept=accept)
    assert list(response.json) == ["kind", "apiVersion", "metadata"]
    assert response.json["apiVersion"] == "meta.k8s.io/v1"
    assert response.json["metadata"] == api.get(path).json["metadata"]


def test_object_as_list(api, path):
    """A single object requested as a PartialObjectMetadataList is a 406."""
    accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    response = api.get(path, accept=accept)
    assert response.status == 406
    assert "the requested object is not a list" in response.message


def test_status_subresource(api, core):
    """GET of /status returns the whole object."""
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    api.post(f"{core}/pods", pod)
    assert api.get(f"{core}/pods/p/status").body == api.get(f"{core}/pods/p").body


def test_scale(api, apps):
    """GET of /scale returns an autoscaling/v1 Scale."""
    body = {
        "metadata": {"name": "d"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    }
    assert api.post(f"{apps}/deployments", body).status == 201
    scale = api.get(f"{apps}/deployments/d/scale").json
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert scale["spec"] == {"replicas": 2}
    assert scale["status"] == {"replicas": 0, "selector": "a=b"}
    assert list(scale["metadata"]) == [
        "name", "namespace", "uid", "resourceVersion", "creationTimestamp",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/v1/nothing", 404),
        ("/api/v1/namespaces/default/nothing/x", 404),
        ("/api/v1/namespaces/default/configmaps/x/status", 404),
        ("/apis/example.com/v1/things", 404),
        ("/api/v9/pods", 404),
    ],
)
def test_unknown_paths(api, path, status):
    """An unknown resource, subresource, group or version is a 404."""
    assert api.get(path).status == status


def test_head(api, path):
    """HEAD works for health checks. On resources and discovery it is a 405."""
    response = api("HEAD", "/livez")
    assert (response.status, response.body) == (200, b"")
    assert int(response.headers["Content-Length"]) == len(api.get("/livez").body)
    for url in (path, path.rpartition("/")[0], "/version", "/api", "/apis/apps/v1"):
        response = api("HEAD", url)
        assert (response.status, response.body) == (405, b""), url
    assert api("HEAD", "/api/v1/nothing").status == 404
