"""The two servers that the bench compares: this checkout, and another one or a kube-apiserver."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from tests.bench.client import Target
from tests.bench.measures import Figures
from tests.bench.servers import ROOT, Store, peer, server, store

BASELINE = Path(__file__).parent / "BASELINE"
"""Holds the commit that `make bench` compares with; a line of its own."""
Start = Callable[[], AbstractContextManager[tuple[Target, Figures]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """A server with a folder and a store of its own; `start` runs it until the block ends."""

    name: str
    folder: Path
    start: Start


@contextlib.contextmanager
def contestant(
    name: str,
    kind: str,
    folder: Path,
    run: Callable[[Store], AbstractContextManager[tuple[Target, Figures]]],
) -> Iterator[Contestant]:
    """A contestant over a fresh store of a kind (`sqlite` or `etcd`), removed at the end."""
    folder.mkdir()
    with store(kind, folder) as below:
        yield Contestant(name=name, folder=folder, start=lambda: run(below))


def kapiserver(
    name: str, kind: str, folder: Path, flags: list[str], *, tree: Path = ROOT
) -> AbstractContextManager[Contestant]:
    """A kapiserver; `tree` is the checkout whose code runs. Its bytecode is compiled first, as by
    `make install`: a start that compiles takes twice the CPU."""
    command = [sys.executable, "-m", "compileall", "-q", str(tree / "kapiserver")]
    subprocess.run(command, check=True)
    return contestant(name, kind, folder, lambda below: server(folder, below, flags, tree=tree))


def kube_apiserver(
    program: Path, folder: Path, flags: list[str]
) -> AbstractContextManager[Contestant]:
    """A kube-apiserver over an etcd."""
    return contestant(
        program.name, "etcd", folder, lambda below: peer(program, folder, below, flags)
    )


def checkout(commit: str, folder: Path) -> Path:
    """Unpack a commit of this repository into a folder. Raises CalledProcessError if there is no
    such commit, as in a shallow clone."""
    folder.mkdir()
    archive = folder.with_suffix(".tar")
    subprocess.run(
        ["git", "-C", str(ROOT), "archive", "-o", str(archive), commit], check=True
    )  # fmt: skip
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    archive.unlink()
    return folder
