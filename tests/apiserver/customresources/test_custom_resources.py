"""Custom objects over HTTP."""

import json
from typing import Any

import pytest

from kapiserver.codecs import cbor, yaml
from tests.apiserver.conftest import Api, api_of_new_server
from tests.apiserver.customresources.customkit import (
    CRDS,
    apply,
    conditions,
    definition,
    establish,
    path_of,
    version,
    widget,
)

PROTOBUF = "application/vnd.kubernetes.protobuf"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
SCALE = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}


api = pytest.fixture(scope="module")(api_of_new_server)


def test_established_definition(api: Api) -> None:
    """Once a definition is Established, its objects can be created, read, listed, changed and
    deleted. Unknown fields are pruned with a warning, and defaults are set."""
    crd = definition()
    path = establish(api, crd)
    established = api.get(f"{CRDS}/{crd['metadata']['name']}").json
    assert conditions(established) == {
        "NamesAccepted": ("True", "NoConflicts"),
        "Established": ("True", "InitialNamesAccepted"),
    }
    assert established["status"]["storedVersions"] == ["v1"]
    assert established["status"]["acceptedNames"] == {
        "plural": "widgets",
        "singular": "widget",
        "kind": "Widget",
        "listKind": "WidgetList",
    }
    created = api.post(path, widget(crd, "a", spec={"color": "red", "zzz": 1}))
    assert created.status == 201
    assert created.warnings == ['299 - "unknown field \\"spec.zzz\\""']
    assert created.json["spec"] == {"color": "red", "replicas": 3}
    assert created.json["metadata"]["generation"] == 1
    assert api.get(f"{path}/a").json == created.json
    changed = api.patch(f"{path}/a", {"spec": {"color": "green"}}).json
    assert (changed["spec"]["color"], changed["metadata"]["generation"]) == ("green", 2)
    replaced = api.put(f"{path}/a", changed | {"spec": {"replicas": 1}}).json
    assert replaced["spec"] == {"replicas": 1}
    assert api.delete(f"{path}/a").json["status"] == "Success"
    assert api.get(path).json["items"] == []


def test_keys_are_sorted(api: Api) -> None:
    """Keys of custom objects are sorted, also in metadata and in lists; list items have kind and
    apiVersion."""
    crd = definition()
    path = establish(api, crd)
    api.post(path, widget(crd, "a", spec={"free": {"b": 1, "a": {"d": 1, "c": 2.0}}}))
    text = api.get(f"{path}/a").body
    assert (
        text
        == json.dumps(api.get(f"{path}/a").json, sort_keys=True, separators=(",", ":"))
        .encode()
        .replace(b'"c":2.0', b'"c":2')
        + b"\n"
    )
    listed = api.get(path).body
    assert listed.startswith(b'{"apiVersion":"%b/v1","items":[{"apiVersion":' % _group(crd))
    revision = json.loads(listed)["metadata"]["resourceVersion"].encode()
    tail = b'],"kind":"WidgetList","metadata":{"continue":"","resourceVersion":"%b"}}\n' % revision
    assert listed.endswith(tail)
    pretty = api.get(f"{path}?pretty=true").body
    assert list(json.loads(pretty)) == ["apiVersion", "items", "kind", "metadata"]


@pytest.mark.parametrize("query", ["", "limit=6"])
@pytest.mark.parametrize("form", ["json", "pretty", "yaml", "cbor"])
def test_long_lists_are_chunked(api: Api, form: str, query: str) -> None:
    """A long list is sent without a Content-Length in every encoding and equals the JSON list."""
    crd = definition()
    path = establish(api, crd)
    for number in range(9):
        text = f"{number}\n\u20ac<\n" * 10_000
        api.post(path, widget(crd, f"w{number}", spec={"free": {"text": text, "list": [1, {}]}}))
    plain = api.get(f"{path}?{query}").json
    pretty = "&pretty=1" if form == "pretty" else ""
    accept = f"application/{'json' if pretty else form}"
    listed = api.get(f"{path}?{query}{pretty}", accept=accept)
    assert listed.headers["Content-Length"] is None
    decode = {"yaml": yaml.decode_value, "cbor": cbor.decode_value}.get(form, json.loads)
    decoded: Any = decode(listed.body)
    assert (decoded["metadata"].pop("continue") == "") == (not query)
    for metadata in (plain["metadata"], decoded["metadata"]):
        metadata.pop("continue", None)
        metadata.pop("resourceVersion")  # of the store as a whole
    assert decoded == plain
    assert len(decoded["items"]) == (6 if query else 9)
    if form == "pretty":
        expected = {**json.loads(listed.body)}
        assert (
            listed.body
            == json.dumps(expected, indent=2, sort_keys=True, ensure_ascii=False)
            .replace("<", "\\u003c")
            .encode()
        )


def _group(crd: Any) -> bytes:
    group: str = crd["spec"]["group"]
    return group.encode()


def test_status_and_scale(api: Api) -> None:
    """A write of the object keeps the status, and a write of /status keeps everything else. /scale
    sets the replicas field of the definition. Only changes outside status increase the
    generation."""
    scale = {**SCALE, "labelSelectorPath": ".status.selector"}
    crd = definition(version(subresources={"status": {}, "scale": scale}))
    path = establish(api, crd)
    created = api.post(path, widget(crd, "a", spec={"replicas": 2}, status={"replicas": 9})).json
    assert "status" not in created
    body = {**created, "spec": {"replicas": 7}, "status": {"replicas": 1, "selector": "a=b"}}
    body["metadata"] = {**created["metadata"], "labels": {"x": "y"}}
    updated = api.put(f"{path}/a/status", body).json
    assert (updated["spec"], updated["status"]["replicas"]) == ({"replicas": 2}, 1)
    assert updated["metadata"]["generation"] == 1
    assert "labels" not in updated["metadata"]
    current_scale = api.get(f"{path}/a/scale").json
    assert (current_scale["spec"], current_scale["status"]) == (
        {"replicas": 2},
        {"replicas": 1, "selector": "a=b"},
    )
    current_scale["spec"]["replicas"] = 5
    assert api.put(f"{path}/a/scale", current_scale).json["spec"] == {"replicas": 5}
    assert api.get(f"{path}/a").json["metadata"]["generation"] == 2
    assert api.patch(f"{path}/a/scale", {"spec": {"replicas": -1}}).status == 422
    scaled = {"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": 6}}
    scaled["metadata"] = {"name": "a"}
    assert apply(api, f"{path}/a/scale", scaled, "me", "&force=true").json["spec"] == {
        "replicas": 6
    }
    owners = api.get(f"{path}/a").json["metadata"]["managedFields"]
    assert [entry["fieldsV1"] for entry in owners if entry.get("manager") == "me"] == [
        {"f:spec": {"f:replicas": {}}}
    ]


@pytest.mark.parametrize(
    ("changes", "status", "message"),
    [
        ({"metadata": "x"}, 400, "cannot unmarshal string into Go value of type v1.ObjectMeta"),
        ({"metadata": []}, 400, "cannot unmarshal array into Go value of type v1.ObjectMeta"),
        ({"metadata": None}, 422, "metadata.name: Required value"),
        ({"metadata": {"name": "a", "labels": {"a": 1}}}, 400, "cannot unmarshal number"),
        ({"spec": "x"}, 422, 'spec in body must be of type object: "string"'),
        ({"spec": []}, 422, 'spec in body must be of type object: "array"'),
        ({"kind": "Other"}, 422, '"a" is invalid: kind: Invalid value: "Other": must be Widget'),
        ({"kind": "WidgetList"}, 422, 'kind: Invalid value: "WidgetList": must be Widget'),
        ({"kind": None}, 400, "(must be of type Widget): Object 'Kind' is missing in '{\"apiV"),
        ({"apiVersion": "b/v9"}, 400, "API version in the data (b/v9) does not match the expected"),
        ({"apiVersion": None}, 400, "the API version in the data () does not match the expected"),
        ({"spec": {"replicas": 3.5}}, 422, "spec.replicas in body must be of type integer"),
        (
            {"spec": {"replicas": 3_000_000_000}},
            422,
            ".spec.replicas: Invalid value: 3000000000: should be less than or equal to 2147483647",
        ),
    ],
)
def test_malformed_objects(api: Api, changes: Any, status: int, message: str) -> None:
    """A malformed object is a 400 or a 422."""
    crd = definition(version(subresources={"scale": SCALE}))
    response = api.post(establish(api, crd), {**widget(crd, "a"), **changes})
    assert response.status == status, response.body
    assert message in response.message


def test_patch_of_kind(api: Api) -> None:
    """A patch that changes the kind is a 422."""
    crd = definition()
    path = establish(api, crd)
    api.post(path, widget(crd, "a"))
    response = api.patch(f"{path}/a", {"kind": "Other"})
    assert (response.status, response.json["details"]["causes"][0]["message"]) == (
        422,
        'Invalid value: "Other": must be Widget',
    )
    assert "apiVersion: Invalid value" in api.patch(f"{path}/a", {"apiVersion": "b/v1"}).message


EMBEDDED = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
EMBEDDED["x-kubernetes-embedded-resource"] = True


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        ({}, "[spec.one.apiVersion: Required value, spec.one.kind: Required value]"),
        ({"apiVersion": "a/b/c", "kind": "A"}, "unexpected GroupVersion string: a/b/c"),
        ({"apiVersion": "v1", "kind": "A_b"}, "may have mixed case, but should otherwise match"),
        (
            {"apiVersion": "v1", "kind": "A", "metadata": {"labels": {"a b": ""}}},
            'spec.one.metadata.labels: Invalid value: "a b"',
        ),
        ({"apiVersion": "v1", "kind": "A", "metadata": {"labels": {"a": "b"}}}, None),
    ],
)
def test_embedded_resources(api: Api, obj: Any, message: str | None) -> None:
    """An embedded resource needs kind, apiVersion and valid metadata, but no name."""
    spec = {"type": "object", "properties": {"one": EMBEDDED}}
    crd = definition(version(schema={"type": "object", "properties": {"spec": spec}}))
    response = api.post(establish(api, crd), widget(crd, "a", spec={"one": obj}))
    assert response.status == (422 if message else 201), response.body
    assert message is None or message in response.message


def test_strict_field_validation(api: Api) -> None:
    """Strict reports unknown fields, in metadata and in applied configurations too."""
    crd = definition()
    path = establish(api, crd)
    obj = widget(crd, "a", spec={"zz": 1})
    obj["metadata"]["huh"] = 1
    response = api.post(f"{path}?fieldValidation=Strict", obj)
    assert response.status == 400
    assert response.message == (
        'Widget in version "v1" cannot be handled as a Widget: strict decoding error: '
        'unknown field "metadata.huh", unknown field "spec.zz"'
    )
    applied = apply(api, f"{path}/a", widget(crd, "a", spec={"zz": 1}), "me")
    assert applied.message.endswith(".spec.zz: field not declared in schema")


def test_initial_events_bookmark(api: Api) -> None:
    """The bookmark after the initial events is an object of the custom kind."""
    crd = definition()
    path = establish(api, crd)
    query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    with api.watch(f"{path}?{query}&allowWatchBookmarks=true") as stream:
        event = stream.event()
    assert event["type"] == "BOOKMARK"
    assert event["object"]["kind"] == "Widget"
    assert event["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_put_without_resource_version(api: Api) -> None:
    """A PUT without a resourceVersion is refused for custom objects."""
    crd = definition()
    path = establish(api, crd)
    api.post(path, widget(crd, "a"))
    response = api.put(f"{path}/a", widget(crd, "a"))
    assert response.status == 422
    expected = "metadata.resourceVersion: Invalid value: 0: must be specified for an update"
    assert response.message.endswith(expected)


def test_versions(api: Api) -> None:
    """An object is read, written, watched and selected in every version. A deprecated version
    causes warnings, and each version has its own schema and columns."""
    small = {"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "color": {"type": "string"}}}}}  # fmt: skip
    columns = [{"name": "Color", "type": "string", "jsonPath": ".spec.color"}]
    crd = definition(
        version("v1"),
        version("v1beta1", small, storage=False, deprecated=True, additionalPrinterColumns=columns),
        version("v1alpha1", small, storage=False, deprecated=True, deprecationWarning="go away"),
    )
    path = establish(api, crd)
    beta, alpha = path_of(crd, "v1beta1"), path_of(crd, "v1alpha1")
    group = crd["spec"]["group"]
    api.post(path, widget(crd, "a", spec={"color": "red", "replicas": 1}))
    response = api.get(f"{beta}/a")
    assert response.json["apiVersion"] == f"{group}/v1beta1"
    assert response.json["spec"] == {"color": "red"}
    warning = f"{group}/v1beta1 Widget is deprecated; use {group}/v1 Widget"
    assert response.warnings == [f'299 - "{warning}"']
    assert api.get(alpha).warnings == ['299 - "go away"']
    with api.watch(f"{beta}?watch=1") as stream:
        assert stream.event()["object"]["apiVersion"] == f"{group}/v1beta1"
        api.post(beta, widget(crd, "b", "v1beta1", spec={"color": "any"}))
        assert stream.event()["object"]["spec"] == {"color": "any"}
    assert api.get(f"{path}/b").json["spec"] == {"color": "any", "replicas": 3}
    rows = api.get(beta, accept=TABLE).json
    assert [column["name"] for column in rows["columnDefinitions"]] == ["Name", "Color"]
    assert [row["cells"] for row in rows["rows"]] == [["a", "red"], ["b", "any"]]
    table = api.get(path, accept=TABLE).json
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Age"]
    groups = {item["name"]: item for item in api.get("/apis").json["groups"]}
    assert [item["version"] for item in groups[group]["versions"]] == [
        "v1",
        "v1beta1",
        "v1alpha1",
    ]


def test_apply(api: Api) -> None:
    """Apply merges lists of type map by their keys and removes fields that the manager no longer
    applies."""
    crd = definition()
    path = f"{establish(api, crd)}/a"
    first_config = widget(crd, "a", spec={"parts": [{"name": "x", "size": 1}], "color": "red"})
    second_config = widget(crd, "a", spec={"parts": [{"name": "y", "size": 2}]})
    assert apply(api, path, first_config, "one").status == 201
    merged = apply(api, path, second_config, "other").json
    assert [part["name"] for part in merged["spec"]["parts"]] == ["x", "y"]
    clash = apply(api, path, widget(crd, "a", spec={"color": "green"}), "other")
    assert clash.status == 409
    assert clash.message == 'Apply failed with 1 conflict: conflict with "one": .spec.color'
    reapplied = apply(api, path, widget(crd, "a", spec={"color": "red"}), "one").json
    assert [part["name"] for part in reapplied["spec"]["parts"]] == ["y"]


def test_media_types(api: Api) -> None:
    """Objects have no Protobuf, except as PartialObjectMetadata, and no strategic merge patch; CBOR
    works like JSON."""
    crd = definition()
    path = establish(api, crd)
    assert api.post(path, b"k8s\0", type=PROTOBUF).status == 415
    accepted = "application/json-patch+json, application/merge-patch+json, "
    strategic = api.patch(f"{path}/a", {}, "strategic")
    assert strategic.status == 415
    assert (
        f"accepted media types include: {accepted}application/apply-patch+yaml" in strategic.message
    )
    assert api.get(path, accept=PROTOBUF).status == 406
    either = api.get(path, accept=f"{PROTOBUF},application/json")
    assert either.headers["Content-Type"] == "application/json"
    metadata = f"{PROTOBUF};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    assert api.get(path, accept=metadata).status == 200
    body = b"\xd9\xd9\xf7" + cbor.encode_value(widget(crd, "a", spec={"replicas": 4}))
    created = api.post(path, body, type="application/cbor", accept="application/cbor")
    assert created.status == 201, created.body
    tree = cbor.decode_value(created.body)
    assert tree["spec"] == {"replicas": 4}
    listed = cbor.decode_value(api.get(path, accept="application/cbor").body)
    assert listed["items"] == [tree]
    assert listed["metadata"]["continue"] == ""
    assert listed["kind"] == "WidgetList"


def test_selectors(api: Api) -> None:
    """Label selectors, metadata.name and the definition's selectableFields select objects; other
    fields are errors."""
    crd = definition(version(selectableFields=[{"jsonPath": ".spec.color"}]))
    path = establish(api, crd)
    for color in ("red", "green"):
        obj = widget(crd, color, spec={"color": color})
        obj["metadata"]["labels"] = {"color": color}
        api.post(path, obj)

    def names(query: str) -> list[str]:
        return [item["metadata"]["name"] for item in api.get(f"{path}?{query}").json["items"]]

    assert names("fieldSelector=spec.color=red") == ["red"]
    assert names("labelSelector=color!=red") == ["green"]
    assert names("fieldSelector=metadata.name=red") == ["red"]
    response = api.get(f"{path}?fieldSelector=spec.replicas=3")
    assert (response.status, response.message) == (400, "field label not supported: spec.replicas")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            {"color": "blue"},
            'spec.color: Unsupported value: "blue": supported values: "red", "green", ""',
        ),
        ({"replicas": "x"}, "spec.replicas: Invalid value"),
        ({"parts": [{"name": "x"}, {"name": "x"}]}, "spec.parts[1]: Duplicate value"),
        ({"parts": [{}]}, "spec.parts[0].name: Required value"),
    ],
)
def test_schema_validation(api: Api, spec: Any, message: str) -> None:
    """An object that breaks the schema is a 422 with kube-apiserver's message."""
    crd = definition()
    path = establish(api, crd)
    response = api.post(path, widget(crd, "a", spec=spec))
    assert response.status == 422
    assert message in response.message


def test_namespaces(api: Api) -> None:
    """A namespaced object needs an existing namespace; a cluster-scoped one has no namespaced
    path."""
    crd = definition()
    path = establish(api, crd).replace("/default/", "/nowhere/")
    response = api.post(path, widget(crd, "a"))
    assert (response.status, response.message) == (404, 'namespaces "nowhere" not found')
    wide = definition(scope="Cluster")
    path = establish(api, wide)
    assert api.post(path, widget(wide, "a")).status == 201
    assert api.get(path.replace("/widgets", "/namespaces/default/widgets")).status == 404
