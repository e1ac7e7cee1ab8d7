"""`kapiserver storage check|compact|backup|restore|copy`: maintenance of a store.

Flags, output and exit codes; `storage/sqlite/admin.py` does the work on SQLite files, and
`storage/kv/copying.py` copies a store of any backend. Serves nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from kapiserver.apiserver.config import Config
from kapiserver.flags.backends import add_backend_flags
from kapiserver.flags.values import DEFAULTS, seconds
from kapiserver.storage.backends import MEMORY, backend_flags, backend_of, open_store
from kapiserver.storage.kv.compaction import COMPACTION_KEY

if TYPE_CHECKING:
    from kapiserver.storage.kv.copying import Copy, Plan
    from kapiserver.storage.sqlite.admin import Summary

    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]

DAMAGED = 3
"""Exit code of a check that found problems; 1 means that the command itself failed."""
_PROGRESS_SECONDS = 1.0
"""The time between two lines of progress. A faster command prints none."""


def add_storage_commands(parser: argparse.ArgumentParser) -> None:
    """Add the commands and their flags."""
    commands = parser.add_subparsers(required=True, metavar="COMMAND", title="commands")
    _add_check(commands)
    _add_compact(commands)
    _add_backup(commands)
    _add_restore(commands)
    _add_copy(commands)


def _add_check(commands: _Commands) -> None:
    check = commands.add_parser(
        "check",
        help="look for damage in a store",
        description="Check the pages, the tables and every value of a store and print what is "
        "wrong. Stop the server first. "
        f"Exit code 0: no problem, {DAMAGED}: problems, 1: the store cannot be read.",
    )
    check.set_defaults(command=_check, verbose=0)
    _add_store(check)


def _add_compact(commands: _Commands) -> None:
    compact = commands.add_parser(
        "compact",
        help="delete old revisions and shrink the file",
        description="Delete all revisions but the newest of each object, and return the free "
        "space to the file system. Stop the server first.",
    )
    compact.set_defaults(command=_compact, verbose=0)
    _add_store(compact)


def _add_backup(commands: _Commands) -> None:
    backup = commands.add_parser(
        "backup",
        help="copy a store to a new file",
        description="Copy a store, as it is at this moment, to a new file. The server may run.",
    )
    backup.set_defaults(command=_backup, verbose=0)
    _add_store(backup)
    backup.add_argument(
        "file", type=Path, metavar="FILE", help="File to write; it must not exist. Required."
    )


def _add_restore(commands: _Commands) -> None:
    restore = commands.add_parser(
        "restore",
        help="create a store from a backup",
        description="Create a store from a backup. The store must not exist yet.",
    )
    restore.set_defaults(command=_restore, verbose=0)
    restore.add_argument(
        "file", type=Path, metavar="FILE", help="File that the backup command wrote. Required."
    )
    _add_store(restore)
    restore.add_argument(
        "--bump-revision", type=int, metavar="N",
        help="Number of revisions to skip after the newest of the backup, from 0 to 2**60 - 1. "
        "All skipped revisions count as compacted, so that clients that have seen changes made "
        "after the backup list again. 0 skips none and is safe only if there were no such changes. "
        "Default: 1000000000.",
    )  # fmt: skip


def _add_copy(commands: _Commands) -> None:
    copy = commands.add_parser(
        "copy",
        help="copy a store to another backend",
        description="Copy all objects of a store to an empty store of any backend, and compare "
        "the two. Stop the servers of both first. SQLite and PostgreSQL keep the revisions; "
        "etcd counts its own. An interrupted copy continues when it is repeated. "
        f"Exit code 0: both are equal, {DAMAGED}: they differ, 1: the copy failed.",
    )
    copy.set_defaults(command=_copy, verbose=0)
    copy.add_argument(
        "source", metavar="FROM",
        help="Store to read, as --storage of a server: sqlite:PATH, etcd:URL,URL or "
        "postgresql://USER@HOST/DATABASE. Required.",
    )  # fmt: skip
    copy.add_argument("target", metavar="TO", help="Store to fill, in the same form. Required.")
    copy.add_argument(
        "--etcd-prefix", default=DEFAULTS.etcd_prefix, metavar="PREFIX",
        help="Prefix of all keys, as of the server. Default: %(default)s.",
    )  # fmt: skip
    copy.add_argument(
        "--event-ttl", type=seconds, default=float(DEFAULTS.event_ttl), metavar="DURATION",
        help="How long the target keeps Events from now on. Default: 1h.",
    )  # fmt: skip
    add_backend_flags(copy)


def _add_store(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data-dir", type=Path, default=Path(".data"), metavar="DIR",
        help="Data directory of the server; the store is kapiserver.db in it. "
        "Default: %(default)s.",
    )  # fmt: skip
    parser.add_argument(
        "--storage", metavar="SPEC",
        help="The store as sqlite:PATH, if the server has --storage. Overrides --data-dir; etcd "
        "and PostgreSQL have tools of their own. Default: --data-dir decides.",
    )  # fmt: skip
    parser.add_argument(
        "store", type=Path, nargs="?", metavar="STORE",
        help="File of the store. Overrides --data-dir and excludes --storage. "
        "Default: the flags decide.",
    )  # fmt: skip


def _check(options: argparse.Namespace) -> int:
    from kapiserver.storage.objects.value_check import ValueCheck
    from kapiserver.storage.sqlite.admin import check

    path = _path(options)
    problems = check(path, ValueCheck(), _ProgressLines())
    for problem in problems:
        _print(problem)
    _print(f"{path}: {len(problems) or 'no'} problem{'s' * (len(problems) != 1)}")
    return DAMAGED if problems else 0


def _compact(options: argparse.Namespace) -> int:
    from kapiserver.storage.sqlite.admin import compact

    path = _path(options)
    old_size = path.stat().st_size if path.exists() else 0
    summary = compact(path, _ProgressLines())
    _print(f"{path}: {_summary_text(summary)} (before: {_megabytes(old_size)})")
    return 0


def _backup(options: argparse.Namespace) -> int:
    from kapiserver.storage.sqlite.admin import backup

    summary = backup(_path(options), options.file, _ProgressLines())
    _print(f"{options.file}: {_summary_text(summary)}")
    return 0


def _restore(options: argparse.Namespace) -> int:
    from kapiserver.storage.sqlite.admin import DEFAULT_BUMP, restore

    bump = DEFAULT_BUMP if options.bump_revision is None else options.bump_revision
    if not 0 <= bump < 1 << 60:
        raise ValueError(f"--bump-revision={bump} is not a number from 0 to 2**60 - 1")
    path = _path(options)
    summary = restore(options.file, path, bump=bump, progress=_ProgressLines())
    _print(f"{path}: {_summary_text(summary)}")
    return 0


def _copy(options: argparse.Namespace) -> int:
    backend, _, path = options.source.partition(":")
    if backend == "sqlite" and not Path(path).exists():
        raise ValueError(f"{path} does not exist")
    if not backend_of(options.target).durable:
        raise ValueError(f"{options.target} is gone when this command ends: name another store")
    result = asyncio.run(_copy_stores(options))
    differing = [comparison for comparison in result.comparisons if not comparison.is_equal]
    width = max((len(comparison.resource) for comparison in result.comparisons), default=0)
    for comparison in result.comparisons:
        note = "" if comparison.is_equal else f"  DIFFERS: {comparison.target[0]} in the target"
        _print(f"{comparison.resource:{width}}  {comparison.source[0]:>8}{note}")
    total = sum(comparison.source[0] for comparison in result.comparisons)
    revisions = "kept" if result.keeps_revisions else "counted by the target"
    _print(f"{total} objects at revision {result.revision}; revisions are {revisions}")
    return DAMAGED if differing else 0


async def _copy_stores(options: argparse.Namespace) -> Copy:
    from kapiserver.storage.concurrency.manual_clock import ManualClock
    from kapiserver.storage.kv.copying import copy

    flags = chain.from_iterable(backend_flags().values())
    sections = Config.of(
        etcd_prefix=options.etcd_prefix,
        **{flag.setting: getattr(options, flag.setting) for flag in flags},
    )
    plan, root = _plan(sections, int(options.event_ttl)), sections.store.key_root
    # No time passes in the source, so that it deletes no expired object and keeps its revision.
    source = await open_store(options.source, clock=ManualClock(0.0), root=root, sections=sections)
    try:
        target = await open_store(options.target, root=root, sections=sections)
        try:
            return await copy(source, target, plan, _ProgressLines())
        finally:
            await target.close()
    finally:
        await source.close()


def _plan(config: Config, event_ttl: int) -> Plan:
    from kapiserver.storage.etcd.store import PROGRESS_KEY
    from kapiserver.storage.kv.copying import Plan

    root, clusters_root = config.store.key_root, config.store.clusters_root
    return Plan(
        root=root,
        clusters_root=clusters_root,
        ttls={"events": event_ttl},
        skipped=(
            *(f"{root}/masterleases/", f"{root}/peerserverleases/"),
            *(root + COMPACTION_KEY, clusters_root + COMPACTION_KEY),
            *(root + PROGRESS_KEY, clusters_root + PROGRESS_KEY),
        ),
        now=time.time(),
    )


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def _path(options: argparse.Namespace) -> Path:
    """Return the file of the store. Raises ValueError."""
    if options.store is not None:
        if options.storage:
            raise ValueError(
                f"STORE ({options.store}) and --storage={options.storage} cannot both be set"
            )
        store: Path = options.store
        return store
    if not options.storage:
        data_dir: Path = options.data_dir
        return data_dir / "kapiserver.db"
    backend, _, location = options.storage.partition(":")
    if backend != "sqlite" or location in ("", MEMORY):
        raise ValueError(
            f"--storage={options.storage} must be sqlite:PATH here: etcd and PostgreSQL "
            "have tools of their own"
        )
    return Path(location)


def _summary_text(summary: Summary) -> str:
    return (
        f"{summary.objects} objects, {summary.versions} versions, "
        f"revisions {summary.compacted} to {summary.revision}, {_megabytes(summary.size)}"
    )


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"


class _ProgressLines:
    """Prints the progress of a slow command on standard error, a line each second."""

    def __init__(self) -> None:
        self._next_line = time.monotonic() + _PROGRESS_SECONDS

    def __call__(self, step: str, completed: int, total: int) -> None:
        now = time.monotonic()
        if now >= self._next_line:
            self._next_line = now + _PROGRESS_SECONDS
            sys.stderr.write(f"{step}: {completed} of {total}\n")
            sys.stderr.flush()
