"""as=Table, the format of `kubectl get`."""

import pytest

TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"


@pytest.fixture
def pods(api, core):
    for name in ("a", "b", "c"):
        body = {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        assert api.post(f"{core}/pods", body).status == 201
    return f"{core}/pods"


def test_list(api, pods):
    """A list as a Table has a row for each object, with its metadata."""
    response = api.get(pods, accept=TABLE)
    assert response.status == 200, response.body
    table = response.json
    assert list(table) == ["kind", "apiVersion", "metadata", "columnDefinitions", "rows"]
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    columns = [column["name"] for column in table["columnDefinitions"]]
    assert columns == [
        "Name", "Ready", "Status", "Restarts", "Age", "IP", "Node", "Nominated Node",
        "Readiness Gates",
    ]  # fmt: skip
    assert [column["priority"] for column in table["columnDefinitions"]] == [0] * 5 + [1] * 4
    assert [row["cells"][0] for row in table["rows"]] == ["a", "b", "c"]
    assert table["rows"][0]["cells"][1:3] == ["0/1", "Pending"]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    assert response.body.endswith(b"]}\n")


def test_single_object(api, pods):
    """An object as a Table has one row and the object's resourceVersion."""
    table = api.get(f"{pods}/b", accept=TABLE).json
    (row,) = table["rows"]
    assert row["cells"][0] == "b"
    assert table["metadata"] == {"resourceVersion": row["object"]["metadata"]["resourceVersion"]}


def test_pages(api, pods):
    """A Table has a continue token and remainingItemCount."""
    table = api.get(f"{pods}?limit=2", accept=TABLE).json
    assert len(table["rows"]) == 2
    assert table["metadata"]["remainingItemCount"] == 1
    second_page = api.get(
        f"{pods}?limit=2&continue={table['metadata']['continue']}", accept=TABLE
    ).json
    assert [row["cells"][0] for row in second_page["rows"]] == ["c"]


def test_empty(api, core):
    """An empty Table has column definitions."""
    table = api.get(f"{core}/pods", accept=TABLE).json
    assert table["rows"] == []
    assert table["columnDefinitions"][0]["name"] == "Name"


@pytest.mark.parametrize(
    ("include", "shown"),
    [("", "PartialObjectMetadata"), ("Metadata", "PartialObjectMetadata"), ("Object", "Pod"),
     ("None", None)],
)  # fmt: skip
def test_include(api, pods, include, shown):
    """includeObject chooses the object in each row."""
    table = api.get(f"{pods}?includeObject={include}", accept=TABLE).json
    included = table["rows"][0]["object"]
    assert (included and included["kind"]) == shown


def test_bad_include(api, pods):
    """An unknown includeObject is a 400."""
    response = api.get(f"{pods}?includeObject=All", accept=TABLE)
    assert response.status == 400
    assert response.message.startswith("Unable to convert to Table as requested: includeObject")


@pytest.mark.parametrize(
    "accept",
    [
        "application/json;as=Table;g=meta.k8s.io;v=v1beta1",
        "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;"
        "g=meta.k8s.io,application/json",
        "application/yaml;as=Table;g=meta.k8s.io;v=v1",
    ],
)
def test_accept_headers(api, pods, accept):
    """v1beta1, kubectl's list of media types and YAML are supported."""
    response = api.get(pods, accept=accept)
    assert response.status == 200
    assert b"columnDefinitions" in response.body


@pytest.mark.parametrize(
    "accept",
    [
        "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1",
        "application/json;as=Chair;g=meta.k8s.io;v=v1",
        "application/json;as=Table;g=meta.k8s.io;v=v2",
        "application/json;as=Table;g=example.com;v=v1",
    ],
)
def test_no_such_table(api, pods, accept):
    """Protobuf, unknown kinds, versions and groups are a 406."""
    assert api.get(pods, accept=accept).status == 406


def test_errors(api, core):
    """An error is a Status even if the client requests a Table."""
    response = api.get(f"{core}/pods/none", accept=TABLE)
    assert response.status == 404
    assert response.json["kind"] == "Status"


def test_writes(api, core):
    """The response to a write can be a Table."""
    response = api.post(f"{core}/configmaps", {"metadata": {"name": "x"}}, accept=TABLE)
    assert response.status == 201
    assert response.json["rows"][0]["cells"][0] == "x"
    response = api.delete(f"{core}/configmaps/x", accept=TABLE)
    assert response.json["kind"] == "Status"


def test_scale(api, namespace):
    """The scale of a deployment as a Table has its own columns."""
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    spec = {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    assert api.post(path, {"metadata": {"name": "d"}, "spec": spec}).status == 201
    table = api.get(f"{path}/d/scale", accept=TABLE).json
    columns = [column["name"] for column in table["columnDefinitions"]]
    assert columns == ["Name", "Desired", "Available", "Age"]
    assert table["rows"][0]["cells"][:3] == ["d", 2, 0]
