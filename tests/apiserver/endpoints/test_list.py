"""GET of collections: selectors, pages, versions, formats and errors."""

import asyncio
import json
from typing import Any

import aiohttp
import pytest

from kapiserver.apiserver.config import Config
from kapiserver.app import serve
from kapiserver.parts import Parts
from tests.clock import ManualClock


@pytest.fixture
def maps(api, core):
    for number in range(5):
        body = {"metadata": {"name": f"m{number}", "labels": {"even": str(number % 2 == 0)}}}
        assert api.post(f"{core}/configmaps", body).status == 201
    return f"{core}/configmaps"


def names(response):
    return [item["metadata"]["name"] for item in response.json["items"]]


def test_empty(api, core):
    """An empty list has an empty `items`."""
    response = api.get(f"{core}/configmaps")
    config_maps = response.json
    version = config_maps["metadata"].pop("resourceVersion")
    assert int(version) > 0
    assert config_maps == {"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {}, "items": []}


def test_items(api, maps):
    """Items are sorted by name and have no kind and apiVersion."""
    response = api.get(maps)
    assert names(response) == ["m0", "m1", "m2", "m3", "m4"]
    assert list(response.json["items"][0]) == ["metadata"]
    assert response.body.startswith(
        b'{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"'
    )
    assert response.body.endswith(b"}]}\n")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("labelSelector=even%3DTrue", ["m0", "m2", "m4"]),
        ("labelSelector=even+in+(False)", ["m1", "m3"]),
        ("labelSelector=!even", []),
        ("fieldSelector=metadata.name%3Dm3", ["m3"]),
        ("fieldSelector=metadata.name!%3Dm3&labelSelector=even=False", ["m1"]),
    ],
)
def test_selectors(api, maps, query, expected):
    """Label and field selectors filter a list."""
    assert names(api.get(f"{maps}?{query}")) == expected


def test_pages(api, maps):
    """Pages show the list at the version of the first page."""
    first_page = api.get(f"{maps}?limit=2")
    assert names(first_page) == ["m0", "m1"]
    assert first_page.json["metadata"]["remainingItemCount"] == 3
    api.post(maps, {"metadata": {"name": "m1a"}})
    token = first_page.json["metadata"]["continue"]
    second_page = api.get(f"{maps}?limit=2&continue={token}")
    assert names(second_page) == ["m2", "m3"]
    version = second_page.json["metadata"]["resourceVersion"]
    assert version == first_page.json["metadata"]["resourceVersion"]
    third = api.get(f"{maps}?limit=2&continue={second_page.json['metadata']['continue']}")
    assert names(third) == ["m4"]
    assert list(third.json["metadata"]) == ["resourceVersion"]


def test_at_a_version(api, maps):
    """resourceVersionMatch=Exact lists the objects at a past version."""
    version = api.get(maps).json["metadata"]["resourceVersion"]
    api.delete(f"{maps}/m0")
    old = api.get(f"{maps}?resourceVersion={version}&resourceVersionMatch=Exact")
    assert names(old) == ["m0", "m1", "m2", "m3", "m4"]
    assert names(api.get(maps)) == ["m1", "m2", "m3", "m4"]


def test_all_namespaces(api, maps, namespace):
    """A list over all namespaces contains the objects of each namespace."""
    response = api.get(f"/api/v1/configmaps?fieldSelector=metadata.namespace={namespace}")
    assert names(response) == ["m0", "m1", "m2", "m3", "m4"]


def without_version(listed):
    """Remove the version of a list, which each write to another object changes."""
    del listed["metadata"]["resourceVersion"]
    return listed


@pytest.mark.parametrize("media", ["application/yaml", "application/cbor"])
def test_other_encodings(api, maps, media):
    """A list in YAML or CBOR equals the list in JSON."""
    from kapiserver.codecs import cbor, yaml

    read = {"application/yaml": yaml.decode_value, "application/cbor": cbor.decode_value}
    response = api.get(maps, accept=media)
    assert response.headers["Content-Type"] == media
    assert without_version(read[media](response.body)) == without_version(api.get(maps).json)


def test_protobuf(api, maps):
    """A list in Protobuf equals the list in JSON."""
    from kapiserver.api.scheme import Scheme
    from kapiserver.codecs.codec_factory import CodecFactory
    from kapiserver.codecs.media_types import PROTOBUF

    response = api.get(maps, accept=PROTOBUF.name)
    tree = CodecFactory(Scheme()).serializer_for(PROTOBUF).decode(response.body).object
    assert without_version(tree) == without_version(api.get(maps).json)


def test_metadata_list(api, maps):
    """as=PartialObjectMetadataList returns the metadata of the items only."""
    accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    response = api.get(f"{maps}?limit=2", accept=accept)
    metadata_list = response.json
    assert (metadata_list["kind"], metadata_list["apiVersion"]) == (
        "PartialObjectMetadataList",
        "meta.k8s.io/v1",
    )
    assert metadata_list["metadata"]["continue"]
    assert [list(item) for item in metadata_list["items"]] == [
        ["kind", "apiVersion", "metadata"]
    ] * 2


def test_list_as_object(api, maps):
    """A list requested as a PartialObjectMetadata is a 406."""
    accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    response = api.get(maps, accept=accept)
    assert response.status == 406
    assert "the requested object is a list" in response.message


def test_long_lists(api, core):
    """A list longer than a chunk arrives whole."""
    text = "x" * 100_000
    for number in range(8):
        body = {"metadata": {"name": f"large{number}"}, "data": {"text": text}}
        assert (
            api.post(f"{core}/secrets", body | {"data": None, "stringData": {"t": text}}).status
            == 201
        )
    for accept in ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf",
                   "application/cbor"):  # fmt: skip
        response = api.get(f"{core}/secrets", accept=accept)
        assert response.status == 200
        assert len(response.body) > 800_000
    assert len(json.loads(api.get(f"{core}/secrets").body)["items"]) == 8


REFUSED = [
    ("labelSelector=a+b", 400, "unable to parse requirement"),
    ("labelSelector=(", 400, "found '('"),
    ("fieldSelector=spec.nothing=1", 400, '"spec.nothing" is not a known field selector'),
    ("fieldSelector=x", 400, "invalid selector"),
    ("limit=x", 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
    ("continue=nonsense", 400, "continue key is not valid"),
    ("resourceVersion=x", 400, "Invalid value"),
    ("resourceVersion=9999999999999", 504, "Too large resource version"),
    ("resourceVersionMatch=Exact", 422, "is forbidden unless resourceVersion is provided"),
    ("resourceVersionMatch=Exact&resourceVersion=0", 422, 'forbidden for resourceVersion "0"'),
    ("resourceVersionMatch=Odd&resourceVersion=1", 422, 'Unsupported value: "Odd"'),
    ("sendInitialEvents=true", 422, "sendInitialEvents is forbidden for list"),
]


@pytest.mark.parametrize(("query", "status", "message"), REFUSED)
def test_refused(api, core, query, status, message):
    """Invalid list options get kube-apiserver's errors."""
    response = api.get(f"{core}/configmaps?{query}")
    assert response.status == status, response.body
    assert message in response.message


def test_tokens_expire_on_an_idle_server() -> None:
    """Within two compaction intervals a token is 410, with a token that continues inconsistently
    (conformance test of API chunking), although nothing is written."""
    clock = ManualClock()
    config = Config.of(secure_port=None, insecure_port=0)

    async def check() -> None:
        async with serve(config, Parts(clock=clock)) as running, aiohttp.ClientSession() as session:

            async def page(token: str) -> Any:
                query = {"limit": "1", "continue": token}
                async with session.get(
                    f"{running.url}/api/v1/namespaces", params=query
                ) as response:
                    return await response.json()

            first = await page("")
            revision = int(first["metadata"]["resourceVersion"])
            async with asyncio.timeout(60):
                while running.cluster.kv.compacted <= revision:
                    clock.advance(config.store.etcd_compaction_interval)
                    await asyncio.sleep(0)
            expired = await page(first["metadata"]["continue"])
            assert (expired["code"], expired["reason"]) == (410, "Expired")
            following = await page(expired["metadata"]["continue"])
            assert following["items"][0]["metadata"]["name"] == "kube-node-lease"
            assert int(following["metadata"]["resourceVersion"]) > revision

    asyncio.run(check())
