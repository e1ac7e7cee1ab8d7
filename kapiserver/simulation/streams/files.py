"""The files of simulated containers, which `kubectl cp` and `tar` write and read in memory.

A container begins without files. `tar` creates and extracts them, `cat` and `test` look at them.
They are removed when the server ends, and when other files need the room.
"""

from __future__ import annotations

import io
import posixpath
import re
import shlex
import tarfile
from collections import OrderedDict
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

MAX_BYTES = 16 << 20
"""What the files of a container have together, and an archive."""
MAX_CONTAINERS = 16
"""The containers that have files; those that were used last."""
MAX_FILES = 10_000

Files = dict[str, bytes]
"""The contents of files by their absolute paths."""


class Output(Struct, frozen=True):
    """What a program writes and returns."""

    stdout: bytes = b""
    stderr: str = ""
    exit_code: int = 0


class FileSystems:
    """The files of all containers."""

    def __init__(self) -> None:
        self._files: OrderedDict[tuple[str, str], Files] = OrderedDict()

    def of(self, uid: str, container: str) -> Files:
        """Return the files of a container of a pod."""
        files = self._files.setdefault((uid, container), {})
        self._files.move_to_end((uid, container))
        if len(self._files) > MAX_CONTAINERS:
            self._files.popitem(last=False)
        return files


def reads_archive(command: Sequence[str]) -> bool:
    """Report whether a command is a `tar` that extracts its standard input."""
    return len(command) > 2 and command[0] == "tar" and "x" in command[1] and "-" in command


def run_program(files: Files, command: Sequence[str], stdin: bytes) -> Output | None:
    """Run a program that looks at files or changes them; None if it is none of those."""
    match list(command):
        case ["test", "-d" | "-e", path] if path.rstrip("/") in ("", "/tmp"):
            return Output()
        case ["test", "-d", path]:
            return Output(exit_code=0 if _below(files, path) else 1)
        case ["test", "-e" | "-f", path]:
            return Output(exit_code=0 if _absolute(path) in files else 1)
        case ["cat", path] if _absolute(path) in files:
            return Output(stdout=files[_absolute(path)])
        case ["tar", *_] if reads_archive(command):
            return _extracted(files, _directory(command), stdin)
        case ["tar", "cf" | "-cf", "-", path]:
            return _created(files, path)
        case ["sh", "-c", line]:
            return _resumed_copy(files, line)
        case _:
            return None


def _resumed_copy(files: Files, line: str) -> Output | None:
    """Run what `kubectl cp --retries` runs, which continues at a byte of the archive after the
    connection was lost. The first byte is 1."""
    try:
        words = shlex.split(line)
    except ValueError:
        return None
    match words:
        case ["tar", "cf", "-", path, "|", "tail", start] if _TAIL.fullmatch(start):
            output = _created(files, path)
            skipped = max(int(start.removeprefix("-c+")) - 1, 0)
            return msgspec.structs.replace(output, stdout=output.stdout[skipped:])
    return None


_TAIL = re.compile(r"-c\+[0-9]{1,18}")


def _absolute(path: str) -> str:
    return posixpath.normpath(posixpath.join("/", path))


def _below(files: Files, directory: str) -> Mapping[str, bytes]:
    """Return the files below a directory."""
    prefix = _absolute(directory).rstrip("/") + "/"
    return {path: data for path, data in files.items() if path.startswith(prefix)}


def _directory(command: Sequence[str]) -> str:
    """Return the directory that `tar -C` names."""
    at = command.index("-C") + 1 if "-C" in command else len(command)
    return command[at] if at < len(command) else "/"


def _extracted(files: Files, directory: str, archive: bytes) -> Output:
    """Add the regular files of an archive."""
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as opened:
            added = {
                _absolute(posixpath.join(directory, member.name)): opened.extractfile(member)
                for member in opened
                if member.isreg()
            }
            contents = {path: file.read() for path, file in added.items() if file is not None}
    except (tarfile.TarError, OSError, EOFError) as error:
        return Output(stderr=f"tar: {error}\n", exit_code=2)
    merged = files | contents
    if len(merged) > MAX_FILES or sum(map(len, merged.values())) > MAX_BYTES:
        return Output(stderr="tar: no space left on device\n", exit_code=2)
    files |= contents
    return Output()


def _created(files: Files, path: str) -> Output:
    """Return an archive of a file, or of the files below a directory."""
    name = _absolute(path)
    files_to_pack = {name: files[name]} if name in files else _below(files, path)
    if not files_to_pack:
        text = f"tar: {path}: Cannot stat: No such file or directory\n"
        return Output(stderr=text, exit_code=2)
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:") as opened:
        for file_path, data in files_to_pack.items():
            member = tarfile.TarInfo(file_path.lstrip("/"))
            member.size, member.mode = len(data), 0o644
            opened.addfile(member, io.BytesIO(data))
    return Output(stdout=archive.getvalue())
