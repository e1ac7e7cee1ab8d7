"""Reads the files of a check: paths, folders and standard input, each within bounds."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from kapiserver.checking.finding import ERROR, Finding

STDIN = "-"
SUFFIXES = (".yaml", ".yml", ".json")
"""Files of a folder with another suffix are not read."""
KUSTOMIZATIONS = ("kustomization.yaml", "kustomization.yml", "Kustomization")
MAX_FILE_BYTES = 64 << 20
MAX_FILES = 100_000
MAX_BYTES = 256 << 20
"""Bytes of all files of a check: objects take about twenty times the memory of their text."""


class SourceFile(Struct, frozen=True):
    """A file that was read, and its name in findings."""

    name: str
    data: bytes


class KustomizationFile(Struct, frozen=True):
    """A file that makes its folder a kustomization, which has to be built."""

    path: Path


Source: TypeAlias = SourceFile | KustomizationFile | Finding
"""What a path leads to; a finding stands for a file that cannot be read."""


def check_exists(paths: Sequence[str]) -> None:
    """Raise FileNotFoundError for a path that does not exist. Links are not followed."""
    for path in paths:
        if path != STDIN:
            os.lstat(path)


def read_paths(paths: Sequence[str]) -> Iterator[Source]:
    """Yield what the paths lead to, within MAX_FILES and MAX_BYTES; a folder's files come in the
    order of their names. The folder of a kustomization is built, its files are not read."""
    size = 0
    for count, source in enumerate(_read_each(paths)):
        size += len(source.data) if isinstance(source, SourceFile) else 0
        if count == MAX_FILES:
            yield _finding("", "too-large", f"there are more than {MAX_FILES} files")
            return
        if size > MAX_BYTES:
            yield _finding("", "too-large", f"the files have more than {MAX_BYTES} bytes together")
            return
        yield source


def _read_each(paths: Sequence[str]) -> Iterator[Source]:
    for path in paths:
        if path == STDIN:
            yield _read_stdin()
        elif Path(path).is_dir():
            yield from _read_folder(Path(path), ())
        else:
            yield _read_file(Path(path))


def _read_stdin() -> Source:
    data = sys.stdin.buffer.read(MAX_FILE_BYTES + 1)
    return _source(STDIN, data)


def _read_folder(folder: Path, parents: tuple[tuple[int, int], ...]) -> Iterator[Source]:
    """Yield the sources of a folder. `parents` identify the folders that contain it."""
    try:
        status = folder.stat()
        with os.scandir(folder) as listed:
            entries = sorted(listed, key=attrgetter("name"))
    except OSError as error:
        yield _unreadable(folder, error)
        return
    identity = (status.st_dev, status.st_ino)
    if identity in parents:
        message = "the link leads to a folder that contains it; it is not followed"
        yield _finding(str(folder), "link-cycle", message)
        return
    names = {entry.name for entry in entries}
    for name in KUSTOMIZATIONS:
        if name in names:
            yield KustomizationFile(folder / name)
            return
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if _is_folder(entry):
            yield from _read_folder(folder / entry.name, (*parents, identity))
        elif entry.name.endswith(SUFFIXES):
            yield _read_file(folder / entry.name)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads to itself
        return False


def _read_file(path: Path) -> Source:
    try:
        # A pipe that nobody writes to would block the check.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return _finding(str(path), "unreadable-file", "it is not a regular file")
            return _source(str(path), file.read(MAX_FILE_BYTES + 1))
    except OSError as error:
        return _unreadable(path, error)


def _source(name: str, data: bytes) -> Source:
    if len(data) > MAX_FILE_BYTES:
        return _finding(name, "too-large", f"the file has more than {MAX_FILE_BYTES} bytes")
    return SourceFile(name, data)


def _unreadable(path: Path, error: OSError) -> Finding:
    if error.errno == errno.ELOOP:
        return _finding(str(path), "link-cycle", "the link leads to itself")
    return _finding(str(path), "unreadable-file", error.strerror or str(error))


def _finding(name: str, rule: str, message: str) -> Finding:
    return Finding(file=name, line=1, column=1, severity=ERROR, message=message, rule=rule)
