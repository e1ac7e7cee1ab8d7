"""The files of simulated containers, without a server."""

from __future__ import annotations

import io
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapiserver.simulation.streams.files import (
    MAX_BYTES,
    MAX_CONTAINERS,
    Files,
    FileSystems,
    Output,
    run_program,
)

NAMES = st.text(st.sampled_from("abc"), min_size=1, max_size=3)
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)


def archive(files: dict[str, bytes], kind: bytes = tarfile.REGTYPE) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as opened:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.type, member.linkname = len(data), kind, "/etc/passwd"
            opened.addfile(member, io.BytesIO(data))
    return written.getvalue()


NO_FILE = "tar: /no: Cannot stat: No such file or directory\n"
EXTRACT = ["tar", "-xmf", "-", "-C", "/data"]


@given(st.dictionaries(PATHS, st.binary(max_size=50), min_size=1))
def test_round_trip(files: dict[str, bytes]) -> None:
    stored: Files = {}
    assert run_program(stored, EXTRACT, archive(files)) == Output()
    created = run_program(stored, ["tar", "cf", "-", "/data"], b"")
    assert created is not None
    again: Files = {}
    assert run_program(again, ["tar", "xf", "-"], created.stdout) == Output()
    assert again == stored == {f"/data/{name}": data for name, data in files.items()}


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["cat", "/data/a"], Output(stdout=b"1")),
        (["cat", "/data/../data/a"], Output(stdout=b"1")),
        (["cat", "/data"], None),
        (["test", "-d", "/data"], Output()),
        (["test", "-d", "/data/"], Output()),
        (["test", "-d", "/data/a"], Output(exit_code=1)),
        (["test", "-d", "/tmp"], Output()),
        (["test", "-f", "/data/a"], Output()),
        (["test", "-e", "/no"], Output(exit_code=1)),
        (["tar", "cf", "-", "/no"], Output(stderr=NO_FILE, exit_code=2)),
        (["sh", "-c", "tar cf - /no | tail -c+1"], Output(exit_code=2, stderr=NO_FILE)),
        (["sh", "-c", "tar cf - /data | tail -c+99999"], Output()),
        (["sh", "-c", "ls"], None),
        (["sh", "-c", "tar cf - 'a | tail -c+1"], None),
        (["ls", "/"], None),
        ([], None),
    ],
)
def test_programs(command: list[str], expected: Output | None) -> None:
    assert run_program({"/data/a": b"1"}, command, b"") == expected


@pytest.mark.parametrize(("start", "skipped"), [(0, 0), (1, 0), (2, 1), (600, 599)])
def test_resumed_copy(start: int, skipped: int) -> None:
    """`kubectl cp --retries` reads on at a byte."""
    files: Files = {"/data/a b": b"1"}
    whole = run_program(files, ["tar", "cf", "-", "/data/a b"], b"")
    rest = run_program(files, ["sh", "-c", f"tar cf - '/data/a b' | tail -c+{start}"], b"")
    assert whole is not None
    assert rest == Output(stdout=whole.stdout[skipped:])


@given(st.binary(max_size=2000))
def test_hostile_archives(data: bytes) -> None:
    files: Files = {}
    output = run_program(files, EXTRACT, data)
    assert output is not None
    assert output.exit_code in (0, 2)


def test_paths_stay_in_the_container() -> None:
    files: Files = {}
    run_program(files, EXTRACT, archive({"../../etc/passwd": b"x", "/abs": b"y"}))
    assert files == {"/etc/passwd": b"x", "/abs": b"y"}
    run_program(files, EXTRACT, archive({"link": b""}, kind=tarfile.SYMTYPE))
    assert "/data/link" not in files


def test_limits() -> None:
    files: Files = {"/a": b"x" * MAX_BYTES}
    output = run_program(files, EXTRACT, archive({"b": b"x"}))
    assert output == Output(stderr="tar: no space left on device\n", exit_code=2)
    assert list(files) == ["/a"]
    systems = FileSystems()
    systems.of("0", "app")["/a"] = b""
    for number in range(1, MAX_CONTAINERS + 1):
        systems.of(str(number), "app")
    assert systems.of("0", "app") == {}
