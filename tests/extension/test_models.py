"""Models of pydantic as the types of fields."""

from __future__ import annotations

import asyncio
import enum
from datetime import datetime
from typing import Annotated, Any, Literal

import aiohttp
import msgspec
import pytest
from msgspec import Meta, Struct, defstruct, field
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    create_model,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_camel

from kapiserver.api.types import Tree
from kapiserver.client import StatusError
from kapiserver.extension import Column, Object, ObjectMeta, Resource
from kapiserver.extension.markers import list_map_key, list_type, number, rule
from kapiserver.extension.messages import object_message
from kapiserver.extension.models import field_errors
from kapiserver.extension.objects import read, write
from kapiserver.extension.schemas import UnusableType, object_schema
from tests.extension.servers import serving

PROTOBUF = "application/vnd.kubernetes.protobuf"
Set = Annotated[list[str], list_type("set")]
OneOrTwo = Annotated[int, rule("self < 3"), rule("self > 0")]


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Part(Struct, rename="camel"):
    """One part."""

    weight_in_kg: Annotated[float, number(1), Meta(gt=0, description="How heavy.")] = 1.0


class PartModel(BaseModel):
    """One part."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)

    weight_in_kg: Annotated[float, number(1), Field(gt=0, description="How heavy.")] = 1.0


class Node(BaseModel):
    children: list[Node] = []


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")

    name: str = ""


def _thing(type_: Any, *default: Any) -> type[Object]:
    fields = [("value", Annotated[type_, number(2)], *default)]
    return defstruct("Thing", fields, bases=(Object,), kw_only=True)


def _object_of(field_type: Any, default: Any, *, is_model: bool) -> type[Object]:
    """Return a kind whose field `value` has a class with one field, `inner`."""
    numbered = Annotated[field_type, number(1)]
    if is_model:
        return _thing(create_model("Value", __doc__="A value.", inner=(numbered, default)))
    default = field(default_factory=type(default)) if default in ([], {}) else default
    value = defstruct("Value", [("inner", numbered, default)])
    value.__doc__ = "A value."
    return _thing(value)


@pytest.mark.parametrize(
    ("of_model", "of_struct", "default"),
    [
        (str, str, ""),
        (bool, bool, True),
        (Annotated[int, Field(ge=1, le=9)], Annotated[int, Meta(ge=1, le=9)], 1),
        (Annotated[str, Field(pattern="^a", max_length=3)],
         Annotated[str, Meta(pattern="^a", max_length=3)], "a"),
        (Literal["a", "b"], Literal["a", "b"], "a"),
        (Literal["a"], Annotated[Literal["a"], Meta(extra_json_schema={"type": "string"})], "a"),
        (int | str, int | str, 80),
        (Any, Any, None),
        (str | None, str | None, None),
        (datetime | None, Annotated[datetime, Meta(tz=True)] | None, None),
        (PartModel | None, Part | None, None),
        (list[PartModel], list[Part], []),
        (dict[str, PartModel], dict[str, Part], {}),
        (Annotated[list[PartModel], list_type("map"), list_map_key("weightInKg")],
         Annotated[list[Part], list_type("map"), list_map_key("weightInKg")], []),
        (Set, Set, []),
        (OneOrTwo, OneOrTwo, 1),
    ],
)  # fmt: skip
def test_schemas_and_messages(of_model: Any, of_struct: Any, default: Any) -> None:
    """A model has the schema and the Protobuf message of a struct with the same fields."""
    model = _object_of(of_model, default, is_model=True)
    struct = _object_of(of_struct, default, is_model=False)
    assert object_schema(model) == object_schema(struct)
    messages = [object_message(each) for each in (model, struct)]
    first, second = (_shapes(message) for message in messages)
    assert first == second


def _shapes(message: Any) -> list[Any]:
    return [
        (each.name, each.number, _shapes(each.shape.type) if each.name == "value" else each.pointer)
        for each in message.fields()
    ]


def test_enums() -> None:
    """Enums of a model are enums of the schema, and unknown fields stay where it allows them."""
    schema = object_schema(_object_of(Color, Color.RED, is_model=True))
    inner = schema["properties"]["value"]["properties"]["inner"]
    assert inner == {"type": "string", "enum": ["red", "blue"], "default": "red"}
    opened = object_schema(_thing(Open))["properties"]["value"]
    assert opened["x-kubernetes-preserve-unknown-fields"] is True


@pytest.mark.parametrize(
    ("type_", "message"),
    [
        (Node, r"Thing.value.children\[\]: Node contains itself"),
        (create_model("Pair", both=(int | float | str, 1)), "can describe no union"),
    ],
)
def test_models_without_schema(type_: Any, message: str) -> None:
    """What no schema can describe is refused."""
    with pytest.raises(UnusableType, match=message):
        object_schema(_thing(type_))


def test_other_classes() -> None:
    """A class that neither msgspec nor pydantic knows is refused, as before."""
    with pytest.raises(TypeError, match="custom types"):
        object_schema(_thing(type("Unknown", (), {})))
    with pytest.raises(msgspec.ValidationError, match="no tree is a Unknown"):
        read({"value": 1}, _thing(type("Unknown", (), {})))
    with pytest.raises(TypeError, match="no tree can hold a set_iterator"):
        write(_thing(Any)(value=iter(set())))


def test_errors_of_models() -> None:
    """An error has the path of the field that a model refuses, and a value that JSON can hold."""
    before = Annotated[int, BeforeValidator(lambda value: object())]
    kind = _thing(list[create_model("Item", count=(before, 1))])
    with pytest.raises(msgspec.ValidationError) as caught:
        read({"value": [{"count": 1}]}, kind)
    (error,) = field_errors(caught.value)
    assert str(error).startswith('value[0].count: Invalid value: "<object object at ')


def test_reads_and_writes() -> None:
    """Names in trees are the aliases, and fields that are None are absent."""
    kind = _thing(PartModel | None, None)
    obj = read({"value": {"weightInKg": 2.5}}, kind)
    assert obj.value == PartModel(weight_in_kg=2.5)  # type: ignore[attr-defined]
    assert write(obj)["value"] == {"weightInKg": 2.5}
    assert "value" not in write(read({}, kind))


class DiskSpec(BaseModel):
    """What the owner wants."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)

    size: Annotated[int, number(1), Field(ge=1, description="Its size in GiB.")] = 1
    owner_name: Annotated[str, number(2)] = ""
    spare: Annotated[int, number(3)] = 0
    parts: Annotated[list[PartModel], number(4)] = []

    @field_validator("size")
    @classmethod
    def check_size(cls, size: int) -> int:
        if size % 2 and size != 1:
            raise ValueError("must be even")
        return size

    @model_validator(mode="after")
    def check_spare(self) -> DiskSpec:
        if self.spare > self.size:
            raise ValueError("more spare than size")
        return self


class DiskStatus(BaseModel):
    """What is there."""

    phase: Annotated[str, number(1)] = ""


class Disk(Object):
    """A disk."""

    spec: Annotated[DiskSpec, number(2)]
    status: Annotated[DiskStatus | None, number(3)] = None


def _resource() -> Resource[Disk]:
    disks = Resource(
        Disk,
        group="example.com",
        columns=[Column(name="Size", type="integer", json_path=".spec.size")],
        selectable_fields=[".spec.size"],
    )

    @disks.prepare_for_create
    def begin(disk: Disk) -> None:
        disk.status = DiskStatus(phase="New")
        disk.spec.owner_name = disk.spec.owner_name or "nobody"

    return disks


def _disk(name: str, **spec: Any) -> Tree:
    return {
        "apiVersion": "example.com/v1", "kind": "Disk", "metadata": {"name": name}, "spec": spec,
    }  # fmt: skip


def test_server() -> None:
    """A server of models defaults, validates, prints and encodes as one of structs, and obeys the
    validators of the models."""

    async def run() -> None:
        async with serving(_resource()) as (_, client):
            disks = client.resource("example.com/v1", "disks", namespace="default")
            created = await disks.create(_disk("one", size=2, parts=[{}], other=3))
            assert created["spec"] == {
                "size": 2, "ownerName": "nobody", "spare": 0, "parts": [{"weightInKg": 1.0}],
            }  # fmt: skip
            assert created["status"] == {"phase": "New"}
            for spec, message in (
                ({"size": 0}, "should be greater than or equal to 1"),
                ({"size": 3}, "spec.size: Invalid value: 3: Value error, must be even"),
                ({"size": "x"}, "must be of type integer"),
                ({"size": 2, "spare": 4}, "spec: Invalid value: {"),
                ({"size": 2, "spare": 4}, "Value error, more spare than size"),
            ):
                with pytest.raises(StatusError) as caught:
                    await disks.create(_disk("two", **spec))
                assert caught.value.code == 422
                assert message in str(caught.value)
            typed = client.objects(Disk, namespace="default")
            disk = await typed.get("one")
            disk.spec.size = 4
            assert (await typed.update(disk)).spec.size == 4
            applied = await typed.apply(
                Disk(metadata=ObjectMeta(name="three"), spec=DiskSpec(size=6)), manager="me"
            )
            managed = applied.metadata.managed_fields[0]["fieldsV1"]["f:spec"]
            assert (applied.spec.size, list(managed)) == (6, ["f:size"])
            listed = await disks.list(fieldSelector="spec.size=6")
            assert [each["metadata"]["name"] for each in listed["items"]] == ["three"]
            url = f"{client._url}/apis/example.com/v1/namespaces/default/disks/one"
            async with aiohttp.ClientSession() as session:
                for media_type in (PROTOBUF, "application/cbor"):
                    async with session.get(url, headers={"Accept": media_type}) as response:
                        assert (response.status, response.content_type) == (200, media_type)
                        assert b"nobody" in await response.read()
                async with session.get(f"{client._url}/openapi/v3/apis/example.com/v1") as answer:
                    schemas = (await answer.json())["components"]["schemas"]
            spec = schemas["com.example.v1.Disk"]["properties"]["spec"]
            assert spec["properties"]["size"]["description"] == "Its size in GiB."

    asyncio.run(run())
