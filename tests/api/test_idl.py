"""The IDL: committed files are current, compile, and match the declarations; tags are stable."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from kapiserver.api import generate, idl
from kapiserver.api.generate import TagError, Tags, number_fields, read_tags
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import Type, field

FILES = idl.proto_files(Scheme())
BY_PATH = {file.path: file for file in FILES}


def test_committed_files_are_current() -> None:
    """`make generate` has nothing to write, and no file is obsolete."""
    expected = generate.generated_files()
    committed = {path: path.read_text() for path in generate.PROTO.rglob("*.proto")}
    assert committed == expected


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> FileDescriptorSet:
    """The descriptors that protoc compiles from the committed files."""
    from grpc_tools import protoc

    out: Path = tmp_path_factory.mktemp("idl") / "set.bin"
    include = str(files("grpc_tools") / "_proto")
    arguments = ["protoc", f"-I{generate.PROTO}", f"-I{include}", f"--descriptor_set_out={out}"]
    assert protoc.main([*arguments, *BY_PATH]) == 0
    return FileDescriptorSet.FromString(out.read_bytes())


def test_descriptors_equal_declarations(compiled: FileDescriptorSet) -> None:
    """The descriptors made from the declarations equal those that protoc makes from the text."""
    by_name = {descriptor.name: descriptor for descriptor in compiled.file}
    assert by_name.keys() == BY_PATH.keys()
    for path, file in BY_PATH.items():
        assert idl.file_descriptor(file) == by_name[path]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.package)
def test_tags_are_unique(file: idl.ProtoFile) -> None:
    """No two fields of a message share a tag, and none is in protoc's reserved range."""
    for message in file.messages:
        numbers = [field.number for field in idl.wire_fields(message)]
        assert len(numbers) == len(set(numbers))
        assert all(0 < (number or 0) < 19000 for number in numbers)


def test_names_are_those_of_kubernetes() -> None:
    """Packages and paths equal those that existing clients import."""
    assert "k8s.io/api/core/v1/generated.proto" in BY_PATH
    meta = BY_PATH["k8s.io/apimachinery/pkg/apis/meta/v1/generated.proto"]
    assert meta.package == "k8s.io.apimachinery.pkg.apis.meta.v1"
    assert "Table" not in [message.__name__ for message in meta.messages]
    assert "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1/generated.proto" in BY_PATH
    assert "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/generated.proto" in BY_PATH
    assert "StringList" not in [message.__name__ for message in meta.messages]
    assert "PodList" in idl.proto_text(BY_PATH["k8s.io/api/core/v1/generated.proto"])


# --- tags


class Thing(Type):
    """A thing."""

    package = "example"

    name: str = field(1)
    size: str = field(3)


FILE = idl.ProtoFile(package="example", messages=(Thing,))


def proto(*lines: str) -> str:
    """The file as it was generated before."""
    return "\n".join(["message Thing {", *(f"  {line}" for line in lines), "}"])


def test_removed_fields_stay_reserved() -> None:
    """The tag of a removed field is reserved."""
    before = proto("optional string name = 1;", "optional string old = 2;")
    generated = generate.generate(FILE, before)
    assert "  reserved 2; // old\n" in generated
    assert generate.generate(FILE, generated) == generated


BROKEN = [
    (proto("optional string name = 2;"), "Thing.name had the tag 2, not 1"),
    (proto("optional string old = 3;"), "Thing.size takes the tag 3, which old had"),
    (proto("reserved 3; // old"), "Thing.size takes the tag 3, which old had"),
]


@pytest.mark.parametrize(("before", "words"), BROKEN)
def test_changed_and_reused_tags_are_errors(before: str, words: str) -> None:
    """A tag cannot change or be reused."""
    with pytest.raises(TagError, match=words):
        generate.generate(FILE, before)


SOURCE = '''
class Thing(Type):
    """A thing."""

    first: str = field(4)
    second: str = field()
    third: dict[str, str] = field(doc="Third.")
    fourth: str = field(
        doc="Fourth.",
    )
    plain: int = 3


class Inherited(v1.Inherited):
    old = override_field(required=False)
    new: str = field()
    gone = remove_field()


class Table(Type):
    """Not on the wire."""

    wire = False

    row: str = field()
'''
NUMBERED = (
    SOURCE.replace("second: str = field()", "second: str = field(8)")
    .replace('field(doc="Third."', 'field(9, doc="Third."')
    .replace("fourth: str = field(\n", "fourth: str = field(10, \n")
    .replace("new: str = field()", "new: str = field(6)")
)


def test_new_fields_get_the_next_free_tag() -> None:
    """New tags are above all current and former ones; types without a Protobuf form get none."""
    before = {
        "Thing": Tags(live={4: "first"}, reserved={7: "gone"}),
        "Inherited": Tags(live={1: "old", 5: "other"}),
    }
    assert number_fields(SOURCE, before) == NUMBERED
    assert number_fields(NUMBERED, before) == NUMBERED


def test_tags_are_read_from_generated_text() -> None:
    """Live and reserved tags are parsed from generated text, including maps and lists."""
    text = idl.proto_text(BY_PATH["k8s.io/api/core/v1/generated.proto"])
    tags = read_tags(text)
    assert tags["ConfigMap"].live == {1: "metadata", 2: "data", 3: "binaryData", 4: "immutable"}
    assert sum(len(message_tags.live) for message_tags in tags.values()) == sum(
        len(idl.wire_fields(message))
        for message in BY_PATH["k8s.io/api/core/v1/generated.proto"].messages
    )
