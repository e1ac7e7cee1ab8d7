"""`kapiserver protos`: the Protobuf IDL of declared classes."""

from __future__ import annotations

from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

from kapiserver.api.generate import PROTO
from kapiserver.cli import main
from kapiserver.codecs.media_types import PROTOBUF
from tests.extension.test_messages import codecs_of, make_boxes

TEXT = """
// Boxes of the shop.
message Box {
  optional .k8s.io.apimachinery.pkg.apis.meta.v1.ObjectMeta metadata = 1;
  optional BoxSpec spec = 2;
  optional BoxStatus status = 3;
}
"""


def test_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """protoc compiles the files, and other programs read what the codec writes."""
    module = tmp_path / "boxes_for_protos.py"
    module.write_text(
        "from tests.extension.test_messages import make_boxes\nboxes = make_boxes()\n"
    )
    out = tmp_path / "out"
    assert main(["protos", str(module), str(out)]) == 0
    paths = ["example.com/v1/generated.proto", "example.com/v1alpha1/generated.proto"]
    assert capsys.readouterr().out == "".join(f"{out / path}\n" for path in paths)
    text = (out / paths[0]).read_text()
    assert TEXT in text
    assert "package example.com.v1;\n" in text
    assert "  // Its size in litres.\n  optional int64 size = 1;\n" in text
    assert "  map<string, Part> byName = 6;\n" in text
    assert "\n\nmessage BoxStatus {" in text  # the class has no docstring
    obj = {
        "apiVersion": "example.com/v1", "kind": "Box", "metadata": {"name": "b"},
        "spec": {"size": 5, "parts": [{"partName": "lid"}], "byName": {"x": {"weight": 2.0}}},
    }  # fmt: skip
    envelope = codecs_of(make_boxes()).serializer_for(PROTOBUF).encode(obj)
    box = _compiled(out, paths, tmp_path / "set.bin", "example.com.v1.Box")
    unknown = _compiled(
        out, paths, tmp_path / "set.bin", "k8s.io.apimachinery.pkg.runtime.Unknown"
    ).FromString(envelope.removeprefix(b"k8s\0"))
    assert json_format.MessageToDict(box.FromString(unknown.raw))["spec"] == {
        "size": "5", "parts": [{"partName": "lid"}], "byName": {"x": {"weight": 2.0}},
    }  # fmt: skip


def _compiled(folder: Path, paths: list[str], file: Path, name: str) -> type:
    """Return a message class that protoc has compiled."""
    from grpc_tools import protoc

    runtime = "k8s.io/apimachinery/pkg/runtime/generated.proto"
    arguments = ["protoc", f"-I{folder}", f"-I{PROTO}", "--include_imports"]
    arguments += [f"--descriptor_set_out={file}", *paths, runtime]
    assert protoc.main(arguments) == 0
    pool = descriptor_pool.DescriptorPool()
    for each in descriptor_pb2.FileDescriptorSet.FromString(file.read_bytes()).file:
        pool.Add(each)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def test_no_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A module whose fields have no numbers has no files."""
    module = str(Path(__file__).parent / "databases.py")
    assert main(["protos", module, str(tmp_path)]) == 1
    assert "has no resources whose fields have numbers" in capsys.readouterr().err
