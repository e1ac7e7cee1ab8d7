"""`kapiserver storage`: its output and exit codes."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from kapiserver.cli import main
from kapiserver.codecs.cbor import encode_value
from kapiserver.codecs.codec_factory import CodecFactory
from kapiserver.codecs.storage_codec import encode_for_storage
from kapiserver.commands.storage import DAMAGED
from kapiserver.storage.concurrency.manual_clock import ManualClock
from kapiserver.storage.kv.contract import RangeResult, Revision
from kapiserver.storage.sqlite.embedded_store import open_embedded
from kapiserver.storage.wrappers.overlay_store import TOMBSTONE
from tests.storage.objectkit import SCHEME

VALUES = {
    "/registry/configmaps/default/a": encode_for_storage(
        CodecFactory(SCHEME),
        {
            "kind": "ConfigMap",
            "apiVersion": "v1",
            "metadata": {"name": "a", "namespace": "default"},
        },
    ),
    "/registry/example.com/things/a": b'{"apiVersion":"example.com/v1","kind":"Thing"}\n',
    "/registry/secrets/default/sealed": b"k8s:enc:aescbc:v1:one:\0\1\2",
    "/registry/kapiserver/continue-token-secret": bytes(range(32)),
    "/registry/kapiserver/compaction": b"1",
    "/registry/example.com/things/b": b"\xd9\xd9\xf7"  # the tag of CBOR
    + encode_value({"apiVersion": "example.com/v1", "kind": "Thing"}),
    "/registry-clusters/uid/configmaps/default/a": TOMBSTONE,
    "/registry-clusters/open/uid": b"open",
    "/registry-clusters/templates/a": b"\x78\x9c",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data directory with a store."""

    async def fill() -> None:
        store = await open_embedded(tmp_path / "kapiserver.db")
        for key, value in VALUES.items():
            await store.create(key, value)
        await store.close()

    asyncio.run(fill())
    return tmp_path


def command(folder: Path, name: str, *more: str) -> int:
    return main(["storage", name, "--data-dir", str(folder), *more])


def test_commands_print_summaries(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Check, compact, backup and restore print what they did and exit with 0."""
    assert command(folder, "check") == 0
    assert capsys.readouterr().out == f"{folder / 'kapiserver.db'}: no problems\n"
    assert command(folder, "compact") == 0
    assert "9 objects, 9 versions, revisions 10 to 10" in capsys.readouterr().out
    copy = folder / "copy.db"
    assert command(folder, "backup", str(copy)) == 0
    assert capsys.readouterr().out.startswith(f"{copy}: 9 objects")
    new = f"sqlite:{folder / 'new.db'}"
    assert main(["storage", "restore", "--storage", new, str(copy)]) == 0
    assert "revisions 1000000010 to 1000000010" in capsys.readouterr().out
    plain = f"sqlite:{folder / 'plain.db'}"
    arguments = ["--storage", plain, "--bump-revision", "0", str(copy)]
    assert main(["storage", "restore", *arguments]) == 0
    assert "revisions 10 to 10" in capsys.readouterr().out
    for spec in (new, plain, f"sqlite:{copy}"):
        assert main(["storage", "check", "--storage", spec]) == 0
    assert capsys.readouterr().err == ""


def test_store_argument(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The store's path may be an argument: before the path of a backup, after the path of a file to
    restore."""
    store, copy, new = (str(folder / name) for name in ("kapiserver.db", "copy.db", "new.db"))
    assert main(["storage", "backup", store, copy]) == 0
    assert main(["storage", "restore", copy, new]) == 0
    for name in ("check", "compact"):
        assert main(["storage", name, new]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == [copy, new, new, new]


def test_copy(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A copy has all objects, those of logical clusters too, and no key of a running server. The
    source stays as it is, even if an object in it has expired."""
    source, target = (f"sqlite:{folder / name}" for name in ("kapiserver.db", "target.db"))

    async def add() -> Revision:
        store = await open_embedded(folder / "kapiserver.db")
        for key in ("masterleases/a", "peerserverleases/a"):
            await store.create(f"/registry/{key}", b"")
        await store.create("/registry-clusters/kapiserver/compaction", b"1")
        await store.create("/registry-clusters/uid/events/default/a", b"", ttl=1)
        revision = await store.create("/registry/events/default/a", b"", ttl=1)
        await store.close()
        return revision

    async def range_of(name: str) -> RangeResult:
        store = await open_embedded(folder / name, clock=ManualClock(0.0))
        result = await store.range("/registry")
        await store.close()
        return result

    revision = asyncio.run(add())
    for _ in range(2):
        with closing(sqlite3.connect(folder / "kapiserver.db")) as sql, sql:
            sql.execute("UPDATE expiry SET at = 1, checksum = NULL")
        assert main(["storage", "copy", source, target]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert [" ".join(line.split()) for line in lines] == [
            "clusters/*/configmaps 1",
            "clusters/*/events 1",
            "clusters/open 1",
            "clusters/templates 1",
            "configmaps 1",
            "events 1",
            "example.com/things 2",
            "kapiserver 1",
            "secrets 1",
            f"10 objects at revision {revision}; revisions are kept",
        ]
    copied, original = asyncio.run(range_of("target.db")), asyncio.run(range_of("kapiserver.db"))
    assert copied.revision == original.revision == revision
    left_out = {item.key for item in original.items} - {item.key for item in copied.items}
    assert left_out == {
        "/registry/kapiserver/compaction",
        "/registry/masterleases/a",
        "/registry/peerserverleases/a",
        "/registry-clusters/kapiserver/compaction",
    }


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        (
            "/registry/pods/default/a",
            b"rubbish",
            "the value does not decode: illegal base64 data at input byte 4",
        ),
        ("/registry/pods/default/a", b"{torn", "the value does not decode"),
        ("/registry/pods/default/a", b"k8s\0\xff\xff", "the value does not decode"),
        (
            "/registry/things/default/a",
            b"k8s\0\x0a\x0d\x0a\x04ex/1\x12\x05Thing\x12\0\x1a\0\x22\0",
            "the kind is unknown",
        ),
    ],
)
def test_values_that_do_not_decode(
    key: str, value: bytes, problem: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Check prints the key of a value that the server cannot read, and exits with DAMAGED."""
    with closing(sqlite3.connect(folder / "kapiserver.db")) as sql:
        sql.execute("INSERT INTO log VALUES (90, ?, FALSE, 0, ?, NULL)", (key, value))
        sql.execute("INSERT INTO current VALUES (?, 90)", (key,))
        sql.commit()
    assert command(folder, "check") == DAMAGED
    out = capsys.readouterr().out
    assert out.startswith(f"{key} at revision 90: {problem}")
    assert out.endswith(f"{folder / 'kapiserver.db'}: 1 problem\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["check", "--storage", "sqlite:{}/no.db"], "{}/no.db: there is no such file"),
        (["check", "--storage", "etcd:http://127.0.0.1:1"], "must be sqlite:PATH here"),
        (["compact", "--storage", "sqlite::memory:"], "must be sqlite:PATH here"),
        (["check", "--storage", "sqlite:x.db", "y.db"], "cannot both be set"),
        (["backup", "{}/kapiserver.db"], "{}/kapiserver.db is there already"),
        (["restore", "{}/no.db"], "{}/no.db: there is no such file"),
        (["restore", "{}/kapiserver.db"], "{}/kapiserver.db is there already"),
        (["restore", "--bump-revision=-1", "{}/kapiserver.db"], "--bump-revision=-1"),
    ],
)
def test_command_errors(
    arguments: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A command that fails prints the reason in one line and exits with 1."""
    name, *command_arguments = (argument.format(folder) for argument in arguments)
    assert command(folder, name, *command_arguments) == 1
    error = capsys.readouterr().err
    assert error.startswith("kapiserver: ")
    assert message.format(folder) in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("sqlite:{}/no.db", "sqlite:{}/new.db", "{}/no.db does not exist"),
        ("sqlite:{}/kapiserver.db", "sqlite::memory:", "is gone when this command ends"),
        ("sqlite:{}/kapiserver.db", "mysql:x", "--storage=mysql:x: want one of"),
        ("sqlite:{}/empty.db", "sqlite:{}/new.db", "no keys below /registry: check its address"),
    ],
)
def test_copy_errors(
    source: str, target: str, message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A copy that is refused prints the reason in one line and exits with 1."""
    (folder / "empty.db").touch()
    assert main(["storage", "copy", source.format(folder), target.format(folder)]) == 1
    error = capsys.readouterr().err
    assert error.startswith("kapiserver: ")
    assert message.format(folder) in error
    assert error.count("\n") == 1
