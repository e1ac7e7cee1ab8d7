"""Builds kustomizations with kustomize or kubectl, if one of them is there."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from kapiserver.checking.finding import ERROR, WARNING, Finding, Severity
from kapiserver.checking.reading.documents import Manifest, Read, read_documents
from kapiserver.checking.reading.files import MAX_FILE_BYTES, SourceFile

TIMEOUT_SECONDS = 120.0
"""A build that takes longer is ended: it may wait for another host."""

_NO_PROGRAM = "the kustomization is not checked: neither kustomize nor kubectl is on PATH"


def build(path: Path) -> Iterator[Read]:
    """Yield the objects of a kustomization. Their place is the kustomization file: the lines of the
    built text are in no file."""
    command = _command(path.parent)
    if command is None:
        yield _finding(path, WARNING, _NO_PROGRAM)
        return
    try:
        process = subprocess.run(command, capture_output=True, timeout=TIMEOUT_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        yield _finding(path, ERROR, str(error))
        return
    if process.returncode:
        yield _finding(path, ERROR, process.stderr.decode(errors="replace").strip())
    elif len(process.stdout) > MAX_FILE_BYTES:
        yield _finding(path, ERROR, f"the built objects have more than {MAX_FILE_BYTES} bytes")
    else:
        yield from map(_without_lines, read_documents(SourceFile(str(path), process.stdout)))


def _command(folder: Path) -> Sequence[str] | None:
    if kustomize := shutil.which("kustomize"):
        return [kustomize, "build", str(folder)]
    if kubectl := shutil.which("kubectl"):
        return [kubectl, "kustomize", str(folder)]
    return None


def _without_lines(read: Read) -> Read:
    """Return an object or a finding that is at the beginning of its file."""
    if isinstance(read, Finding):
        return replace(read, line=1, column=1)
    assert read.document is not None
    return Manifest(read.tree, replace(read.document, first_line=1, text=b""), ())


def _finding(path: Path, severity: Severity, message: str) -> Finding:
    return Finding(
        file=str(path), line=1, column=1, severity=severity, message=message, rule="kustomization"
    )
