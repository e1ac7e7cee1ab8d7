"""Reads the objects at the paths of a command, and reports what cannot be read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from kapiserver.checking.finding import Finding
from kapiserver.checking.reading.documents import Manifest, Read, read_documents
from kapiserver.checking.reading.files import KustomizationFile, Source, check_exists, read_paths
from kapiserver.checking.reading.kustomizations import build
from kapiserver.testing.history.recorder import Recording
from kapiserver.testing.history.recorder import read as read_recording

_GZIP = b"\x1f\x8b"
"""The beginning of a recording."""


class Inputs(Struct, frozen=True):
    """The objects and findings of paths, and the names of the files that were read."""

    reads: Sequence[Read]
    files: Sequence[str]

    @property
    def objects(self) -> int:
        """The number of objects."""
        return sum(isinstance(read, Manifest) for read in self.reads)


def read_inputs(paths: Sequence[str]) -> Inputs:
    """Read files, folders and standard input. Raises FileNotFoundError for a missing path."""
    check_exists(paths)
    reads: list[Read] = []
    files: list[str] = []
    for source in read_paths(paths):
        if isinstance(source, KustomizationFile):
            files.append(str(source.path))
        else:
            files.append(source.file if isinstance(source, Finding) else source.name)
        reads += _read(source)
    return Inputs(reads, list(dict.fromkeys(files)))


def read_cluster(path: str) -> tuple[Sequence[Read], Recording | None]:
    """Return the objects of a snapshot, or the recording that it is. Raises OSError, and ValueError
    for a bad recording."""
    if Path(path).is_file():
        with open(path, "rb") as file:
            if file.read(len(_GZIP)) == _GZIP:
                return (), read_recording(Path(path))
    return read_inputs([path]).reads, None


def _read(source: Source) -> Iterator[Read]:
    if isinstance(source, Finding):
        yield source
    elif isinstance(source, KustomizationFile):
        yield from build(source.path)
    else:
        yield from read_documents(source)
