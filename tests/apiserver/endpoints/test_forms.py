"""Response formats: objects, Tables and PartialObjectMetadata in every encoding, for get, list and
watch."""

import http.client
import json
from collections.abc import Mapping
from typing import Any

import cbor2
import pytest

from kapiserver.api.scheme import Scheme
from kapiserver.codecs.codec_factory import CodecFactory
from kapiserver.codecs.media_types import CBOR, JSON, MEDIA_TYPES, PROTOBUF, YAML, MediaType
from kapiserver.codecs.negotiation import parse_accept

CODECS = CodecFactory(Scheme())
METADATA, METADATA_LIST = "PartialObjectMetadata", "PartialObjectMetadataList"
CONVERSIONS = ("", "Table", METADATA, METADATA_LIST)
VERSIONS = ("v1", "v1beta1")
INCLUDES = ("", "None", "Metadata", "Object")


@pytest.fixture(scope="session")
def objects(api) -> str:
    """The path of a collection with one object, on the server of the session."""
    api.post("/api/v1/namespaces", {"metadata": {"name": "forms"}})
    path = "/api/v1/namespaces/forms/configmaps"
    body = {"metadata": {"name": "x", "labels": {"a": "b"}}, "data": {"k": "v"}}
    assert api.post(path, body).status == 201
    return path


def _accept(media: MediaType, kind: str, version: str) -> str:
    return f"{media.name};as={kind};g=meta.k8s.io;v={version}" if kind else media.name


def _decoded(media: MediaType, body: bytes) -> Any:
    return CODECS.serializer_for(media).decode(body).object


def _status(media: MediaType, kind: str, *, is_list: bool) -> int:
    """The expected status: 406 for a Table in Protobuf, a single object as a list and the
    reverse."""
    if kind == "Table":
        return 406 if media is PROTOBUF else 200
    if kind == METADATA:
        return 406 if is_list else 200
    if kind == METADATA_LIST:
        return 200 if is_list else 406
    return 200


@pytest.mark.parametrize("media", MEDIA_TYPES, ids=lambda media_type: media_type.extension)
@pytest.mark.parametrize("kind", CONVERSIONS)
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("is_list", [False, True], ids=["get", "list"])
def test_get_and_list(
    api, objects: str, media: MediaType, kind: str, version: str, is_list: bool
) -> None:
    """Get and list return every supported format, and 406 for other formats, in indented JSON."""
    path = objects if is_list else f"{objects}/x"
    response = api.get(path, accept=_accept(media, kind, version))
    assert response.status == _status(media, kind, is_list=is_list), response.body
    if response.status == 406:
        assert response.json["reason"] == "NotAcceptable"
        assert response.body.startswith(b'{\n  "kind": "Status",\n')
        return
    (content_type,) = parse_accept(response.headers["Content-Type"])
    assert content_type.name == media.name
    decoded = _decoded(media, response.body)
    if kind:
        assert (decoded["kind"], decoded["apiVersion"]) == (kind, f"meta.k8s.io/{version}")
    else:
        assert decoded["kind"] == ("ConfigMapList" if is_list else "ConfigMap")
    if kind == "Table":
        (row,) = decoded["rows"]
        assert row["cells"][0] == "x"
        assert row["object"]["metadata"]["labels"] == {"a": "b"}
        assert {column["priority"] for column in decoded["columnDefinitions"]} >= {0}
        return
    (item,) = [decoded] if not is_list else decoded["items"]
    assert item["metadata"]["labels"] == {"a": "b"}
    assert ("data" in item) == (not kind)


@pytest.mark.parametrize("media", [JSON, YAML, CBOR], ids=lambda media_type: media_type.extension)
@pytest.mark.parametrize("include", INCLUDES)
@pytest.mark.parametrize("is_list", [False, True], ids=["get", "list"])
def test_rows_include(api, objects: str, media: MediaType, include: str, is_list: bool) -> None:
    """includeObject chooses the object in each row, in every encoding."""
    path = objects if is_list else f"{objects}/x"
    accept = _accept(media, "Table", "v1")
    response = api.get(f"{path}?includeObject={include}", accept=accept)
    (row,) = _decoded(media, response.body)["rows"]
    expected = {"": METADATA, "Metadata": METADATA, "Object": "ConfigMap", "None": None}[include]
    assert (row["object"] and row["object"]["kind"]) == expected
    if expected == "ConfigMap":
        assert row["object"]["data"] == {"k": "v"}


@pytest.mark.parametrize("media", MEDIA_TYPES, ids=lambda media_type: media_type.extension)
@pytest.mark.parametrize(
    ("kind", "include"),
    [("", ""), (METADATA, ""), ("Table", ""), ("Table", "Object"), ("Table", "None")],
)
def test_events(api, objects: str, media: MediaType, kind: str, include: str) -> None:
    """Watch events contain every supported format. YAML has no watches."""
    accept = _accept(media, kind, "v1") + (";stream=watch" if media is PROTOBUF else "")
    path = f"{objects}?watch=1&includeObject={include}"
    connection = http.client.HTTPConnection("127.0.0.1", api.port, timeout=60)
    connection.request("GET", path, headers={"Accept": accept})
    response = connection.getresponse()
    possible = media is not YAML and not (kind == "Table" and media is PROTOBUF)
    assert response.status == (200 if possible else 406)
    if not possible:
        connection.close()
        return
    assert media.framing is not None
    reader, bodies = media.framing.make_reader(), []
    while not bodies:
        bodies = reader.feed(response.read1(65536))
    connection.close()
    event = _first_event(media, bodies[0])
    assert event["type"] == "ADDED"
    event_object = event["object"]
    assert event_object["kind"] == (kind or "ConfigMap")
    if kind == "Table":
        (row,) = event_object["rows"]
        assert row["cells"][0] == "x"
        expected = {"": METADATA, "Object": "ConfigMap", "None": None}[include]
        assert (row["object"] and row["object"]["kind"]) == expected
    else:
        assert event_object["metadata"]["name"] == "x"
        assert ("data" in event_object) == (not kind)


def _first_event(media: MediaType, body: bytes) -> Any:
    if media is PROTOBUF:
        head, mark, payload = body.partition(b"k8s\0")
        return {
            "type": "ADDED" if b"ADDED" in head else "",
            "object": _decoded(media, mark + payload),
        }
    return json.loads(body) if media is JSON else _texts(cbor2.loads(body))


def _texts(value: Any) -> Any:
    """Decode CBOR byte strings to text."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, Mapping):
        return {_texts(key): _texts(item) for key, item in value.items()}
    return [_texts(item) for item in value] if isinstance(value, list | tuple) else value


WIDE = {
    "pods": ["IP", "Node", "Nominated Node", "Readiness Gates"],
    "services": ["Selector"],
    "nodes": ["Internal-IP", "External-IP", "OS-Image", "Kernel-Version", "Container-Runtime"],
}


@pytest.mark.parametrize("resource", WIDE)
def test_wide_columns(api, resource: str) -> None:
    """The columns that `kubectl get -o wide` adds have a priority above zero."""
    accept = _accept(JSON, "Table", "v1")
    columns = api.get(f"/api/v1/{resource}", accept=accept).json["columnDefinitions"]
    assert [column["name"] for column in columns if column["priority"] > 0] == WIDE[resource]
