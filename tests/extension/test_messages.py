"""Protobuf of declared classes whose fields have numbers."""

from __future__ import annotations

import asyncio
import enum
from datetime import datetime
from typing import Annotated, Any, Literal

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, Struct, field

from kapiserver.api.scheme import Scheme
from kapiserver.api.types import Tree
from kapiserver.client import Client
from kapiserver.codecs.codec_factory import CodecFactory
from kapiserver.codecs.media_types import PROTOBUF
from kapiserver.extension import Object, Resource, Scale, Version
from kapiserver.extension.kinds import declared_kinds
from kapiserver.extension.markers import number
from kapiserver.extension.messages import object_message
from kapiserver.extension.schemas import UnusableType
from tests.extension.databases import Database
from tests.extension.servers import serving


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Part(Struct, rename="camel"):
    part_name: Annotated[str, number(1)] = ""
    weight: Annotated[float, number(2)] = 0.0


class BoxSpec(Struct, rename="camel"):
    size: Annotated[int, number(1), Meta(ge=0, description="Its size in litres.")] = 1
    is_open: Annotated[bool, number(2)] = False
    color: Annotated[Color, number(3)] = Color.RED
    level: Annotated[Literal[1, 2], number(4)] = 1
    parts: Annotated[list[Part], number(5)] = field(default_factory=list)
    by_name: Annotated[dict[str, Part], number(6)] = field(default_factory=dict)
    port: Annotated[int | str, number(7)] = 80
    data: Annotated[bytes, number(8)] = b""
    free: Annotated[Any, number(9)] = None
    note: Annotated[str | None, number(10)] = None
    made: Annotated[datetime | None, number(11)] = None
    words: Annotated[list[str], number(2000)] = field(default_factory=list)
    replicas: Annotated[int, number(12)] = 1


class BoxStatus(Struct):
    replicas: Annotated[int, number(1)] = 0


class Box(Object):
    """Boxes of the shop."""

    spec: Annotated[BoxSpec, number(2)] = field(default_factory=BoxSpec)
    status: Annotated[BoxStatus | None, number(3)] = None


class OldSpec(Struct):
    size: Annotated[int, number(1)] = 1


class OldBox(Object):
    spec: Annotated[OldSpec, number(2)]


def make_boxes() -> Resource[Box]:
    """Return a resource in two versions whose fields have numbers."""
    return Resource(
        Box,
        group="example.com",
        plural="boxes",
        versions=(
            Version(name="v1"),
            Version(
                name="v1alpha1",
                type=OldBox,
                to_hub=lambda old: Box(spec=BoxSpec(size=old.spec.size)),
                from_hub=lambda new: OldBox(spec=OldSpec(size=new.spec.size)),
            ),
        ),
        scale=Scale(),
    )


def codecs_of(resource: Resource[Any]) -> CodecFactory:
    """Return the codecs of a server with the resource."""
    scheme = Scheme()
    scheme.custom = declared_kinds([resource])
    return CodecFactory(scheme)


_PARTS = st.fixed_dictionaries(
    {},
    optional={
        "partName": st.text(max_size=5),
        "weight": st.floats(allow_nan=False, allow_infinity=False, width=32),
    },
)
_FREE = st.recursive(
    st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
_SPECS = st.fixed_dictionaries(
    {},
    optional={
        "size": st.integers(-(2**63), 2**63 - 1),
        "isOpen": st.booleans(),
        "color": st.sampled_from(["red", "blue"]),
        "level": st.sampled_from([1, 2]),
        "parts": st.lists(_PARTS, min_size=1, max_size=3),
        "byName": st.dictionaries(st.text(max_size=3), _PARTS, min_size=1, max_size=3),
        "port": st.integers(0, 65535) | st.text(max_size=4),
        "data": st.sampled_from(["", "AAE=", "aGk="]),
        "free": _FREE,
        "note": st.text(max_size=4),
        "made": st.just("2024-01-02T03:04:05Z"),
        "words": st.lists(st.text(max_size=3), min_size=1, max_size=3),
    },
)


@given(spec=_SPECS, name=st.text("abc", min_size=1))
def test_round_trip(spec: Tree, name: str) -> None:
    """A message holds what the tree holds; absent and zero differ."""
    serializer = _CODECS.serializer_for(PROTOBUF)
    obj = {
        "apiVersion": "example.com/v1",
        "kind": "Box",
        "metadata": {"name": name, "creationTimestamp": None},
        "spec": spec,
    }
    decoded = serializer.decode(serializer.encode(obj)).object
    assert decoded["spec"] == spec
    assert decoded["metadata"]["name"] == name


_CODECS = codecs_of(make_boxes())


def test_wire() -> None:
    """The numbers are those on the wire."""
    encoded = _CODECS.serializer_for(PROTOBUF).encode(
        {"apiVersion": "example.com/v1", "kind": "Box", "metadata": {}, "spec": {"size": 5}}
    )
    assert b"\x12\x02\x08\x05" in encoded  # field 2, two bytes: field 1 is 5


def test_server() -> None:
    """Clients send and get objects, lists and watches in Protobuf, in each version."""

    async def run() -> None:
        async with serving(make_boxes()) as (running, _):
            codecs = codecs_of(make_boxes())
            async with Client(running.url, prefer="protobuf", codecs=codecs) as client:
                boxes = client.resource("example.com/v1", "boxes", namespace="default")
                events = boxes.follow()
                head = {"kind": "Box", "metadata": {"name": "one"}}
                created = await boxes.create({**head, "spec": {"size": 3, "port": "http"}})
                assert created["spec"]["port"] == "http"
                assert created["spec"]["replicas"] == 1  # a default
                event = await anext(events)
                assert event.object["spec"] == created["spec"]
                await events.aclose()
                created["spec"]["parts"] = [{"partName": "lid", "weight": 0.5}]
                updated = await boxes.update(created)
                assert updated["spec"]["parts"] == created["spec"]["parts"]
                listed = await boxes.list()
                assert [item["spec"]["size"] for item in listed["items"]] == [3]
                scale = await boxes.get("one", subresource="scale")
                assert scale["spec"] == {"replicas": 1}
                old = client.resource("example.com/v1alpha1", "boxes", namespace="default")
                assert (await old.get("one"))["spec"] == {"size": 3}
                assert len((await old.list())["items"]) == 1
                assert client._json_only == set()
            await _check_headers(running.url)
            await _check_large(running.url)

    asyncio.run(run())


async def _check_headers(url: str) -> None:
    """The responses are Protobuf, and OpenAPI says so."""
    async with aiohttp.ClientSession() as session:
        path = "/apis/example.com/v1/namespaces/default/boxes"
        accept = {"Accept": PROTOBUF.name}
        for suffix in ("", "/one"):
            async with session.get(url + path + suffix, headers=accept) as response:
                assert response.content_type == PROTOBUF.name
        async with session.get(url + "/openapi/v3/apis/example.com/v1") as response:
            document = await response.json()
    operation = document["paths"]["/apis/example.com/v1/namespaces/{namespace}/boxes"]["get"]
    assert PROTOBUF.name in operation["responses"]["200"]["content"]


async def _check_large(url: str) -> None:
    """An integer that JSON spells as a float is one in a message, too; others are refused."""
    path = f"{url}/apis/example.com/v1/namespaces/default/boxes"
    head = {"apiVersion": "example.com/v1", "kind": "Box", "metadata": {"name": "large"}}
    async with aiohttp.ClientSession() as session:
        for size, code in ((2**63, 422), (2**64, 422), (1e300, 422), (5.0, 201)):
            async with session.post(path, json={**head, "spec": {"size": size}}) as response:
                assert response.status == code
        async with session.get(f"{path}/large", headers={"Accept": PROTOBUF.name}) as response:
            decoded = _CODECS.serializer_for(PROTOBUF).decode(await response.read())
            assert decoded.object["spec"]["size"] == 5


class Twice(Struct):
    a: Annotated[int, number(1)] = 0
    b: Annotated[int, number(1)] = 0


class Some(Struct):
    a: Annotated[int, number(1)] = 0
    b: int = 0


class TwiceObject(Object):
    spec: Annotated[Twice, number(2)]


class SomeObject(Object):
    spec: Annotated[Some, number(2)]


class MetadataObject(Object):
    spec: Annotated[BoxSpec, number(1)]


class ReservedObject(Object):
    spec: Annotated[BoxSpec, number(19000)]


class ListsObject(Object):
    rows: Annotated[list[list[int]], number(2)]


@pytest.mark.parametrize(
    ("type_", "message"),
    [
        (TwiceObject, "TwiceObject.spec.b: a has the number 1, too"),
        (SomeObject, "SomeObject.spec.b: it has no number, but other fields have"),
        (MetadataObject, "MetadataObject.spec: metadata has the number 1, too"),
        (ReservedObject, "ReservedObject.spec: 19000 is not a number of a Protobuf field"),
        (ListsObject, "ListsObject.rows: no message has a list of lists or of dictionaries"),
    ],
)
def test_unusable(type_: type[Object], message: str) -> None:
    """A class that no message can hold is refused when its resource is made."""
    with pytest.raises(UnusableType) as raised:
        object_message(type_)
    assert str(raised.value) == message
    with pytest.raises(UnusableType):
        declared_kinds([Resource(type_, group="example.com")])


def test_without_numbers() -> None:
    """A class without numbers has no message."""
    assert object_message(Database) is None
