"""`kapiserver crds`: definitions of declared resources, in a server that serves them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pytest
from msgspec import Meta, Struct

from kapiserver.api.resource_client import Client, StatusError
from kapiserver.cli import main
from kapiserver.extension import Object
from kapiserver.extension.markers import (
    embedded_resource,
    list_map_key,
    list_type,
    map_type,
    nullable,
    preserve_unknown_fields,
    rule,
    string_format,
)
from kapiserver.extension.schemas import object_schema
from kapiserver.testing.fixtures.definitions import install_definitions
from kapiserver.testing.server import TestServer
from tests.docs.blocks import ROOT

MODULE = """
from kapiserver.extension import ApiServer, Call, Object, ObjectSource, Resource
from tests.extension.databases import make_databases

class Host(Object):
    pass

class Hosts(ObjectSource[Host]):
    async def list(self):
        return []

class Quote(Object):
    pass

databases = make_databases()
hosts = Resource(Host, group="example.com", source=Hosts())
quotes = Resource(Quote, group="example.com")

@quotes.answer
async def answer(call: Call, quote: Quote) -> Quote:
    return quote

@databases.connect("log")
async def log(call: Call, database: Object) -> str:
    return ""

server = ApiServer([databases, hosts, quotes])
"""


def _definitions(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    module = folder / "declared_for_crds.py"
    module.write_text(MODULE)
    assert main(["crds", str(module)]) == 0
    output, errors = capsys.readouterr()
    return output, errors


def test_served(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A server accepts the definition without a warning, and applies what the classes say."""
    text = _definitions(tmp_path, capsys)[0]
    file = tmp_path / "crd.yaml"
    file.write_text(text)
    with TestServer(tls=False, controllers=("*",)) as server:
        install_definitions(server, file)
        server.run(_check(server.internal_client()))


async def _check(client: Client) -> None:
    databases = client.resource("example.com/v1", "databases", namespace="default")
    head = {"kind": "Database", "metadata": {"name": "one"}}
    database = await databases.create({**head, "spec": {}})
    assert database["spec"] == {"engine": "postgres", "replicas": 1, "size": 1}
    selected = await databases.list(fieldSelector="spec.engine=postgres")
    assert len(selected["items"]) == 1
    scaled = await databases.patch("one", {"spec": {"replicas": 4}}, subresource="scale")
    assert scaled["spec"] == {"replicas": 4}
    with pytest.raises(StatusError, match="mysql is for small data"):
        await databases.patch("one", {"spec": {"engine": "mysql", "size": 60}})


def test_notes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What a definition cannot say is said in comments and on standard error."""
    output, errors = _definitions(tmp_path, capsys)
    assert "without a conversion webhook" in output
    assert "default, prepare_for_create, prepare_for_update, validate" in output
    assert "subresources of the program: log" in output
    assert errors == (
        "hosts.example.com has no definition: its objects are virtual\n"
        "quotes.example.com has no definition: its objects are calls\n"
    )


@pytest.mark.parametrize(
    ("module", "message"),
    [
        ("nothing_here.py", "kapiserver: nothing_here.py is not a Python file\n"),
        (str(ROOT / "tests/extension/servers.py"), "has no resources at its top level\n"),
        ("no.such.module", "No module named 'no'"),
    ],
)
def test_bad_modules(module: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A module that has nothing to print is one line on standard error."""
    assert main(["crds", module]) == 1
    assert message in capsys.readouterr().err


class Part(Struct):
    name: str


class Marked(Object):
    parts: Annotated[list[Part], list_type("map"), list_map_key("name")]
    labels: Annotated[dict[str, str], map_type("atomic"), Meta(max_length=3)]
    size: Annotated[
        int, rule("self > 0"), rule("self < 9", message="too large", reason="FieldValueForbidden")
    ]
    at: Annotated[str, string_format("date-time")]
    template: Annotated[dict[str, Any], embedded_resource()]
    part: Annotated[Part, preserve_unknown_fields()]
    note: Annotated[str, nullable()]


def test_markers() -> None:
    """Each marker becomes the keyword that controller-gen writes."""
    fields = object_schema(Marked)["properties"]
    assert fields["parts"]["x-kubernetes-list-type"] == "map"
    assert fields["parts"]["x-kubernetes-list-map-keys"] == ["name"]
    assert fields["labels"]["x-kubernetes-map-type"] == "atomic"
    assert fields["labels"]["maxProperties"] == 3
    assert fields["size"]["x-kubernetes-validations"] == [
        {"rule": "self > 0"},
        {"rule": "self < 9", "message": "too large", "reason": "FieldValueForbidden"},
    ]
    assert fields["at"]["format"] == "date-time"
    assert fields["template"]["x-kubernetes-embedded-resource"] is True
    assert fields["template"]["x-kubernetes-preserve-unknown-fields"] is True
    assert fields["part"]["x-kubernetes-preserve-unknown-fields"] is True
    assert fields["note"]["nullable"] is True
