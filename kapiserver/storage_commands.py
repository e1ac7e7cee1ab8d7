"""`kapiserver storage check|compact|backup|restore`: looking after the SQLite file of a store.

Words, flags and exit codes; the work is done by `storage/sqlite_admin.py`. Nothing here serves.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from kapiserver.storage.backends import MEMORY

if TYPE_CHECKING:
    from kapiserver.storage.sqlite_admin import Summary

DAMAGED = 3
"""Exit code of a check that found something wrong; 1 is a command that could not do its work."""
_QUIET_SECONDS = 1.0
"""Between two lines of progress; what is done sooner says nothing."""


def add_storage_commands(parser: argparse.ArgumentParser) -> None:
    """The commands and their flags."""
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(
        name: str, run: Callable[[argparse.Namespace], int], text: str
    ) -> argparse.ArgumentParser:
        found = commands.add_parser(name, help=text.partition(";")[0], description=f"{text}.")
        found.set_defaults(command=run, verbose=0)
        found.add_argument(
            "--data-dir", type=Path, default=Path(".data"), metavar="DIR", help="as of serve"
        )
        found.add_argument("--storage", metavar="SPEC", help="sqlite:PATH, as of serve")
        return found

    def add_store(found: argparse.ArgumentParser) -> None:
        found.add_argument(
            "store", type=Path, nargs="?", metavar="STORE",
            help="the store's file, instead of --storage and --data-dir",
        )  # fmt: skip

    checked = add(
        "check", _check,
        "say what is wrong with a store that nobody serves; exit code 0: nothing, "
        f"{DAMAGED}: something, 1: it could not be looked at",
    )  # fmt: skip
    add_store(checked)
    compacted = add(
        "compact", _compact,
        "forget the history of a store that nobody serves; free space goes back to the file system",
    )  # fmt: skip
    add_store(compacted)
    saved = add("backup", _backup, "copy a store as it is at this moment; it may be served")
    add_store(saved)
    saved.add_argument("file", type=Path, metavar="FILE", help="a new file")
    restored = add("restore", _restore, "make a store of a backup, where there is none yet")
    restored.add_argument("file", type=Path, metavar="FILE", help="what backup wrote")
    add_store(restored)
    restored.add_argument(
        "--bump-revision", type=int, metavar="N",
        help="leave out so many revisions and mark all before as compacted, so that none that was "
        "written after the backup comes to mean something else (default 1000000000); 0: go on as "
        "if nothing had been",
    )  # fmt: skip


def _check(options: argparse.Namespace) -> int:
    from kapiserver.storage.sqlite_admin import check

    path = _path(options)
    problems = check(path, _Values(), _Progress())
    for problem in problems:
        _say(problem)
    _say(f"{path}: {len(problems) or 'no'} problem{'s' * (len(problems) != 1)}")
    return DAMAGED if problems else 0


def _compact(options: argparse.Namespace) -> int:
    from kapiserver.storage.sqlite_admin import compact

    path = _path(options)
    before = path.stat().st_size if path.exists() else 0
    found = compact(path, _Progress())
    _say(f"{path}: {_told(found)}; it had {_bytes(before)}")
    return 0


def _backup(options: argparse.Namespace) -> int:
    from kapiserver.storage.sqlite_admin import backup

    _say(f"{options.file}: {_told(backup(_path(options), options.file, _Progress()))}")
    return 0


def _restore(options: argparse.Namespace) -> int:
    from kapiserver.storage.sqlite_admin import BUMP, restore

    bump = BUMP if options.bump_revision is None else options.bump_revision
    if not 0 <= bump < 1 << 60:
        raise ValueError(f"--bump-revision={bump}: want a number from 0 on, below 2**60")
    path = _path(options)
    _say(f"{path}: {_told(restore(options.file, path, bump=bump, progress=_Progress()))}")
    return 0


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def _path(options: argparse.Namespace) -> Path:
    """The file that is meant. Raises ValueError."""
    if options.store is not None:
        if options.storage:
            raise ValueError(f"{options.store} and --storage={options.storage}: want one of them")
        store: Path = options.store
        return store
    if not options.storage:
        data: Path = options.data_dir
        return data / "kapiserver.db"
    name, _, location = options.storage.partition(":")
    if name != "sqlite" or location in ("", MEMORY):
        raise ValueError(f"--storage={options.storage}: want sqlite:PATH (etcd has its own tools)")
    return Path(location)


def _told(found: Summary) -> str:
    return (
        f"{found.objects} objects, {found.versions} versions, revisions {found.compacted} to "
        f"{found.revision}, {_bytes(found.size)}"
    )


def _bytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"


class _Progress:
    """Says on stderr how far something is, where it takes long."""

    def __init__(self) -> None:
        self._due = time.monotonic() + _QUIET_SECONDS

    def __call__(self, what: str, done: int, total: int) -> None:
        now = time.monotonic()
        if now >= self._due:
            self._due = now + _QUIET_SECONDS
            sys.stderr.write(f"{what}: {done} of {total}\n")
            sys.stderr.flush()


class _Values:
    """Tries to read values as the server would. What is sealed stays so, and JSON may be of any
    kind: those of custom resources are declared by objects."""

    def __init__(self) -> None:
        from kapiserver.api.scheme import Scheme
        from kapiserver.codecs.factory import CodecFactory
        from kapiserver.storage.continue_token import SECRET
        from kapiserver.storage.encryption import SEALED

        self._codecs = CodecFactory(Scheme())
        self._sealed = SEALED
        self._secret = SECRET

    def __call__(self, key: str, value: bytes) -> str:
        from kapiserver.codecs.at_rest import decode_at_rest
        from kapiserver.codecs.errors import CodecError, UnknownKind

        if value.startswith(self._sealed) or key.endswith(self._secret):
            return ""
        try:
            decode_at_rest(self._codecs, value)
        except UnknownKind:
            return "" if value.startswith(b"{") else "a kind that is not known here"
        except CodecError as error:
            return f"it does not decode: {error}"
        return ""
