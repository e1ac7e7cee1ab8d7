"""CBOR over HTTP (KEP-4222): every verb for built-in and custom kinds, patches, the feature gate,
byte strings."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from kapiserver.apiserver.feature_gates import parse_feature_gates
from kapiserver.codecs import cbor, framing
from tests.apiserver.conftest import Api, Response, Server
from tests.apiserver.customresources.customkit import definition, establish, version, widget

CBOR, JSON, PROTOBUF = (
    "application/cbor",
    "application/json",
    "application/vnd.kubernetes.protobuf",
)
TEMPLATE = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {"containers": [{"name": "c", "image": "nginx"}]},
}


def written(tree: Any) -> bytes:
    return cbor.SELF_DESCRIBED_TAG + cbor.encode_value(tree)


def read(response: Response) -> Any:
    assert response.headers["Content-Type"] == CBOR, response.body
    assert response.body.startswith(cbor.SELF_DESCRIBED_TAG)
    return cbor.decode_value(response.body)


@pytest.fixture(params=["deployments", "widgets"])
def case(request: Any, api: Api, apps: str) -> tuple[str, dict[str, Any], str]:
    """A path, an object, and the name of an integer field of its spec, for a built-in and a custom
    kind. Both have a scale."""
    if request.param == "deployments":
        spec = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}
        obj = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}}
        return f"{apps}/deployments", {**obj, "spec": spec}, "replicas"
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    crd = definition(version(subresources={"status": {}, "scale": scale}))
    return establish(api, crd), widget(crd, "x", spec={"replicas": 0}), "replicas"


def test_every_verb(api: Api, case: tuple[str, dict[str, Any], str]) -> None:
    """Every verb works in CBOR as in JSON."""
    path, obj, field = case
    cbor_both = {"type": CBOR, "accept": CBOR}
    created = api.post(path, written(obj), **cbor_both)
    assert created.status == 201
    tree = read(created)
    assert tree == api.get(f"{path}/x").json == read(api.get(f"{path}/x", accept=CBOR))
    listed = read(api.get(path, accept=CBOR))
    assert listed["items"] == api.get(path).json["items"]
    with api.watch(f"{path}?watch=1&timeoutSeconds=30", accept="application/cbor-seq") as stream:
        assert stream.response.getheader("Content-Type") == "application/cbor-seq"
        frames = framing.CBOR_SEQUENCE.make_reader()

        def event() -> Any:
            while True:
                for body in frames.feed(stream.response.read1(65536)):
                    return cbor.decode_value(body)

        assert event() == {"type": "ADDED", "object": tree}
        tree["spec"][field] = 2
        updated = read(api.put(f"{path}/x", written(tree), **cbor_both))
        assert updated["spec"][field] == 2
        assert event() == {"type": "MODIFIED", "object": updated}
    config = {**obj, "spec": {**obj["spec"], field: 3}}
    query = "fieldManager=me&force=true"
    applied = api.patch(
        f"{path}/x?{query}", written(config), "application/apply-patch+cbor", accept=CBOR
    )
    assert read(applied)["spec"][field] == 3
    scale = read(api.get(f"{path}/x/scale", accept=CBOR))
    assert (scale["kind"], scale["spec"]) == ("Scale", {"replicas": 3})
    scale["spec"]["replicas"] = 4
    assert read(api.put(f"{path}/x/scale", written(scale), **cbor_both))["spec"] == {"replicas": 4}
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"]}
    assert api.delete(f"{path}/x", written(options), **cbor_both).status == 200
    assert api.get(f"{path}/x").status == 200
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "no"}}
    conflict = api.delete(f"{path}/x", written(options), **cbor_both)
    assert (conflict.status, read(conflict)["reason"]) == (409, "Conflict")
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
    assert api.delete(path, written(options), **cbor_both).status == 200
    missing = api.get(f"{path}/x", accept=CBOR)
    assert (missing.status, read(missing)["kind"], read(missing)["code"]) == (404, "Status", 404)


def test_tables(api: Api, case: tuple[str, dict[str, Any], str]) -> None:
    """Tables and PartialObjectMetadataLists in CBOR equal those in JSON."""
    path, obj, _ = case
    api.post(path, obj)
    for form in ("Table;v=v1", "PartialObjectMetadataList;v=v1"):
        response = api.get(path, accept=f"{CBOR};g=meta.k8s.io;as={form}")
        plain = api.get(path, accept=f"{JSON};g=meta.k8s.io;as={form}").json
        table = cbor.decode_value(response.body)
        assert table["kind"] == form.partition(";")[0]
        for tree in (table, plain):
            del tree["metadata"]["resourceVersion"]  # controllers write between the two requests
            for row in tree.get("rows", ()):
                row["cells"] = row["cells"][:1]  # without ages
        assert table == plain


def test_patch_types_without_cbor(api: Api, case: tuple[str, dict[str, Any], str]) -> None:
    """JSON patches and merge patches have no CBOR media type. Custom kinds have no strategic merge
    patch."""
    path, obj, _ = case
    api.post(path, obj)
    wrong = ["application/json-patch+cbor", "application/merge-patch+cbor", CBOR]
    if obj["kind"] == "Widget":
        wrong.append("application/strategic-merge-patch+cbor")
    for type_ in wrong:
        response = api.patch(f"{path}/x", written({}), type_)
        assert (response.status, response.json["reason"]) == (415, "UnsupportedMediaType")


def test_bytes(api: Api, core: str) -> None:
    """A field of type bytes is a byte string with tag 22 in every response. Request bodies may
    contain byte strings or base64 text."""
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}}
    as_bytes = cbor.encode_value_unsorted({**secret, "data": {"key": b"\x00\x01\xff"}})
    tagged = b"\x43key\xd6\x43\x00\x01\xff"
    assert tagged in as_bytes
    path = f"{core}/secrets"
    created = api.post(path, as_bytes, type=CBOR, accept=CBOR)
    assert tagged in created.body
    assert api.get(f"{path}/x").json["data"] == {"key": "AAH/"}
    table = f"{CBOR};as=Table;g=meta.k8s.io;v=v1"
    for query, accept in (("", CBOR), ("?includeObject=Object", table)):
        assert tagged in api.get(path + query, accept=accept).body
    with api.watch(f"{path}?watch=1&timeoutSeconds=30", accept="application/cbor-seq") as stream:
        assert tagged in stream.response.read1(65536)
    text = {**secret, "metadata": {"name": "y"}, "data": {"key": "AAH/"}}
    assert api.post(path, written(text), type=CBOR).json["data"] == text["data"]


def test_fields_of_two_types(api: Api, core: str) -> None:
    """An IntOrString keeps the type of its value. A quantity may be a number or text and is stored
    in canonical form."""
    ports = [{"name": "a", "port": 1, "targetPort": 8}, {"name": "b", "port": 2, "targetPort": "h"}]
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}}
    body = written({**service, "spec": {"ports": ports}})
    created = read(api.post(f"{core}/services", body, type=CBOR, accept=CBOR))
    assert [port["targetPort"] for port in created["spec"]["ports"]] == [8, "h"]
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "x"}}
    hard = {"cpu": 2, "memory": "1024Mi", "pods": "1e1"}
    body = written({**quota, "spec": {"hard": hard}})
    created = read(api.post(f"{core}/resourcequotas", body, type=CBOR, accept=CBOR))
    assert created["spec"]["hard"] == {"cpu": "2", "memory": "1Gi", "pods": "10"}
    assert created["metadata"]["creationTimestamp"].endswith("Z")


def test_numbers(api: Api) -> None:
    """Integers and floats stay distinct in untyped fields. A number outside int64 is a 400."""
    crd = definition()
    path = establish(api, crd)
    free = {"whole": 1, "other": 1.5, "low": -(1 << 63), "high": (1 << 63) - 1}
    obj = widget(crd, "x", spec={"free": free})
    assert api.post(path, written(obj), type=CBOR).json["spec"]["free"] == free
    data = written(widget(crd, "y", spec={"free": {"n": 1}}))
    for number in (b"\x1b\xff\xff\xff\xff\xff\xff\xff\xff", b"\xc2\x49\x01" + bytes(8), b"\xf9~\0"):
        response = api.post(path, data.replace(b"\x41n\x01", b"\x41n" + number), type=CBOR)
        assert (response.status, response.json["reason"]) == (400, "BadRequest")


def test_text_that_is_not_utf8(api: Api, core: str) -> None:
    """A byte string that is not UTF-8 is a 400 in a string field of a built-in kind; the message
    names the field."""
    data = written({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"},
                    "data": {"k": "\udcff"}})  # fmt: skip
    response = api.post(f"{core}/configmaps", data, type=CBOR)
    assert response.status == 400
    assert "data.k" in response.message


@pytest.mark.parametrize("count", [0, 1, 30])
def test_long_tables_and_metadata_lists(api: Api, core: str, count: int) -> None:
    """A long Table or metadata list is sent without a Content-Length and equals the list in
    JSON."""
    for number in range(count):
        config = {
            "binaryData": {"b": "AAH/" * 5000},
            "metadata": {"annotations": {"a": "a" * 10_000}},
        }
        config["metadata"] |= {"name": f"c{number}", "labels": {"long": "yes"}}
        assert api.post(f"{core}/configmaps", config).status == 201
    for form in (
        "as=Table;v=v1;g=meta.k8s.io",
        "as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    ):
        path = f"{core}/configmaps?includeObject=Object&labelSelector=long=yes"
        response = api.get(path, accept=f"{CBOR};{form}")
        decoded, plain = read(response), api.get(path, accept=f"{JSON};{form}").json
        assert (response.headers["Content-Length"] is None) == (count == 30)
        for tree in (decoded, plain):
            tree["metadata"].pop("resourceVersion")  # other tests change it
            for row in tree.get("rows", ()):
                row["cells"].pop()  # the age
        assert decoded == plain
        assert len(decoded.get("rows", decoded.get("items")) or ()) == count


NON_UTF8 = "a\udcff"
"""The bytes `a` and 255."""
NON_UTF8_RULE = "self.size() == 2 && self.matches('a.') && self.startsWith('a')"
NON_UTF8_SCHEMA = {
    "type": "string", "maxLength": 2, "pattern": "^a.$",
    "x-kubernetes-validations": [{"rule": NON_UTF8_RULE}],
}  # fmt: skip
NON_UTF8_FIELDS = {
    "text": NON_UTF8_SCHEMA,
    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "keyed": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
        "items": {
            "type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}
        },
    },
    "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
}  # fmt: skip


def non_utf8_kind(api: Api) -> tuple[str, Any]:
    spec = {"type": "object", "properties": NON_UTF8_FIELDS}
    schema = {"type": "object", "properties": {"spec": spec}}
    columns = [{"name": "Text", "type": "string", "jsonPath": ".spec.text"}]
    crd = definition(version(schema=schema, additionalPrinterColumns=columns))
    return establish(api, crd), crd


NON_UTF8_SPEC = {
    "text": NON_UTF8,
    "free": {NON_UTF8: [NON_UTF8, {"k": NON_UTF8}]},
    "keyed": [{"k": NON_UTF8}],
    "set": [NON_UTF8],
}


def test_custom_objects_keep_invalid_utf8(api: Api) -> None:
    """Byte strings that are not UTF-8 are unchanged in CBOR responses after updates of other
    fields. In text formats and for patterns, U+FFFD replaces the invalid bytes."""
    path, crd = non_utf8_kind(api)
    body = written(widget(crd, "x", spec=NON_UTF8_SPEC))
    created = api.post(path, body, type=CBOR, accept=CBOR)
    assert created.status == 201, created.body
    assert read(created)["spec"] == NON_UTF8_SPEC
    json_spec = json.loads(json.dumps(NON_UTF8_SPEC).replace("\\udcff", "\ufffd"))
    assert api.get(f"{path}/x").json["spec"] == json_spec
    assert api.get(path).json["items"][0]["spec"] == json_spec
    text = api.get(f"{path}/x", accept="application/yaml").body.decode()
    assert "text: a\ufffd\n" in text
    table = api.get(path, accept="application/json;as=Table;v=v1;g=meta.k8s.io").json
    assert table["rows"][0]["cells"] == ["x", "a\ufffd"]
    api.patch(f"{path}/x", {"metadata": {"labels": {"a": "b"}}})
    stored = api.get(f"{path}/x", accept=CBOR)
    assert read(stored)["spec"] == NON_UTF8_SPEC
    same = read(api.put(f"{path}/x", stored.body, type=CBOR, accept=CBOR))
    assert same["metadata"]["resourceVersion"] == read(stored)["metadata"]["resourceVersion"]
    applied = written(widget(crd, "y", spec=NON_UTF8_SPEC))
    for status in (201, 200):
        response = api.patch(
            f"{path}/y?fieldManager=me", applied, "application/apply-patch+cbor", accept=CBOR
        )
        assert response.status == status, response.body
        assert read(response)["spec"] == NON_UTF8_SPEC


@pytest.mark.parametrize("accept", [JSON, CBOR, f"{PROTOBUF},{JSON}", "application/yaml"])
def test_errors_with_invalid_utf8(api: Api, accept: str) -> None:
    """An error about such a byte string can be encoded in every format."""
    path, crd = non_utf8_kind(api)
    for status, more in (
        (422, {"spec": {"text": NON_UTF8 * 2}}),
        (422, {"metadata": {"name": NON_UTF8}}),
        (422, {"metadata": {"name": "x", "labels": {NON_UTF8: NON_UTF8}}}),
        (422, {"metadata": {"name": "x", "finalizers": [NON_UTF8]}}),
        (400, {"spec": {NON_UTF8: NON_UTF8}}),
        (400, {"kind": NON_UTF8}),
        (400, {"apiVersion": NON_UTF8}),
    ):
        body = written({**widget(crd, "x"), **more})
        response = api.post(f"{path}?fieldValidation=Strict", body, type=CBOR, accept=accept)
        assert response.status == status


def test_preference(api: Api, core: str) -> None:
    """The client gets the best of the media types that it accepts and the server offers."""
    path = establish(api, definition())
    accept = f"{PROTOBUF},{CBOR};q=0.9,{JSON};q=0.8"
    for url, media_type in ((f"{core}/pods", PROTOBUF), (path, CBOR)):
        assert api.get(url, accept=accept).headers["Content-Type"] == media_type
    json_first = f"{CBOR};q=0.5,{JSON};q=0.8"
    assert api.get(path, accept=json_first).headers["Content-Type"] == JSON
    assert api.get(path, accept="*/*").headers["Content-Type"] == JSON


ACCEPTED = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
UNSUPPORTED = "the body of the request was in an unknown format - accepted media types include: "
PATCHES = "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"


@pytest.fixture(scope="module")
def ungated() -> Iterator[Api]:
    """A server without the gate, with a config map `x` and a widget `x`."""
    server = Server(feature_gates=parse_feature_gates("CBORServingAndStorage=false"))
    yield server.api
    server.end()


@pytest.fixture(scope="module")
def ungated_paths(ungated: Api) -> dict[str, str]:
    """The paths of config maps, and of a custom kind with status and scale."""
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    crd = definition(version(subresources={"status": {}, "scale": scale}))
    path, maps = establish(ungated, crd), "/api/v1/namespaces/default/configmaps"
    assert ungated.post(path, widget(crd, "x", spec={"replicas": 1})).status == 201
    assert ungated.post(maps, {"metadata": {"name": "x"}}).status == 201
    return {"maps": maps, "widgets": path}


READS = (
    "{maps}", "{maps}/x", "{maps}/none", "{maps}?limit=none", "{widgets}", "{widgets}/x",
    "{widgets}/none", "{widgets}/x/status", "{widgets}/x/scale", "/api", "/apis", "/api/v1",
    "/apis/apps", "/apis/apps/v1", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
)  # fmt: skip


@pytest.mark.parametrize("path", READS)
def test_responses_without_the_gate(ungated: Api, ungated_paths: dict[str, str], path: str) -> None:
    """Without the gate, a request that accepts CBOR only is a 406. A request that also accepts JSON
    gets JSON."""
    streams = ", application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
    has_streams = (path.startswith("{maps}") and "/" not in path) or path.startswith("/apis/apiext")
    by_route = not path.startswith("{widgets}") and path not in ("/apis", "/apis/apps")
    expected = f"only the following media types are accepted: {ACCEPTED}"
    if by_route:
        expected = f"406: Not Acceptable\n\nAvailable representations: {ACCEPTED}"
        expected += streams if has_streams else ""
    path = path.format(**ungated_paths)
    for accept in (CBOR, f"{CBOR};as=Table;v=v1;g=meta.k8s.io", "application/cbor-seq"):
        response = ungated.get(path, accept=accept)
        assert response.status == 406
        assert response.headers["Content-Type"] == JSON
        assert response.message == expected
    response_to_both = ungated.get(path, accept=f"{CBOR},{JSON};q=0.1")
    assert (response_to_both.status, response_to_both.headers["Content-Type"]) == (
        ungated.get(path).status,
        JSON,
    )


@pytest.mark.parametrize("kind", ["maps", "widgets"])
def test_watches_and_bodies_without_the_gate(
    ungated: Api, ungated_paths: dict[str, str], kind: str
) -> None:
    """Without the gate, a watch in CBOR is a 406 and a body in CBOR is a 415. The messages list the
    supported media types."""
    path = ungated_paths[kind]
    for accept in (CBOR, "application/cbor-seq"):
        response = ungated.get(f"{path}?watch=1&timeoutSeconds=1", accept=accept)
        assert response.status == 406
        assert ACCEPTED in response.message
    body = written({"kind": "DeleteOptions", "apiVersion": "v1"})
    for response in (
        ungated.post(path, body, type=CBOR),
        ungated.put(f"{path}/x", body, type=CBOR),
        ungated.delete(f"{path}/x", body, type=CBOR),
        ungated.delete(path, body, type=CBOR),
    ):
        assert (response.status, response.message) == (415, UNSUPPORTED + ACCEPTED)
    unsupported = "415: Unsupported Media Type" if kind == "maps" else UNSUPPORTED + PATCHES
    for name in ("apply-patch", "strategic-merge-patch", "merge-patch", "json-patch"):
        response = ungated.patch(f"{path}/x?fieldManager=me", body, f"application/{name}+cbor")
        assert (response.status, response.message) == (415, unsupported)
    assert ungated.get(f"{path}/x").status == 200


def _reversed(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _reversed(item) for name, item in reversed(value.items())}
    return [_reversed(item) for item in value] if isinstance(value, list) else value


def test_order_of_keys(api: Api, case: tuple[str, dict[str, Any], str]) -> None:
    """An update that differs only in the order of its keys changes nothing. Stored objects have
    sorted keys; the order of keys in responses is not defined."""
    path, obj, _ = case
    created = api.post(path, written(obj), type=CBOR, accept=CBOR)
    assert created.body != written(read(created))
    tree = api.get(f"{path}/x").json
    reversed_body = cbor.SELF_DESCRIBED_TAG + cbor.encode_value_unsorted(_reversed(tree))
    assert reversed_body != written(tree)
    updated = read(api.put(f"{path}/x", reversed_body, type=CBOR, accept=CBOR))
    assert updated["metadata"]["resourceVersion"] == tree["metadata"]["resourceVersion"]
    assert updated == tree
