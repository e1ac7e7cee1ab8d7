"""Checks of the SQLite file of a store, which a server may have open."""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.doctor.finding import ERROR, INFO, WARNING, Problem
from kapiserver.doctor.installation import Installation
from kapiserver.storage.errors import StorageError
from kapiserver.storage.sqlite.admin import damage, resource_sizes, summarize

FREE_SHARE = 0.5
"""A file should be compacted if more than this share of it is free."""
FREE_BYTES = 100 << 20
"""A file should be compacted if it also has more free bytes. A longer WAL is reported."""
VERSIONS = 10_000
"""A resource changes often if the history has at least this many versions of its objects."""
VERSIONS_PER_OBJECT = 50
"""A resource changes often if the history also has this many versions of each of its objects."""
LARGE_BYTES = 4 << 30
"""A larger file is reported: a start checks the whole file."""


def damaged_store(installation: Installation) -> Iterator[Problem]:
    """Read the whole file, as a start does."""
    file = installation.sqlite_file
    if file is None:
        return
    try:
        problem = damage(file)
    except (OSError, StorageError) as error:
        problem = str(error)
    if problem:
        yield Problem(
            severity=ERROR,
            about=str(file),
            message=f"the store is damaged: {problem}",
            remedy="stop the server, see all problems with `kapiserver storage check`, and restore "
            "a backup with `kapiserver storage restore`",
        )


def large_store(installation: Installation) -> Iterator[Problem]:
    """Look at the size of the file and at its free pages."""
    file = installation.sqlite_file
    if file is None:
        return
    summary = summarize(file)
    wal = file.with_name(f"{file.name}-wal")
    if summary.size > LARGE_BYTES:
        yield Problem(
            severity=WARNING,
            about=str(file),
            message=f"has {summary.size >> 20} MiB in {summary.objects} objects; a start reads all "
            "of it",
            remedy="delete what nobody needs, or move to etcd",
        )
    if summary.free > FREE_BYTES and summary.free > FREE_SHARE * summary.size:
        yield Problem(
            severity=INFO,
            about=str(file),
            message=f"{summary.free >> 20} of {summary.size >> 20} MiB are free",
            remedy="stop the server and run `kapiserver storage compact`",
        )
    if wal.exists() and wal.stat().st_size > FREE_BYTES:
        yield Problem(
            severity=WARNING,
            about=str(wal),
            message=f"has {wal.stat().st_size >> 20} MiB: a program reads the store for a long "
            "time, or the server was killed",
            remedy="end programs that have the file open; a restart of the server empties it",
        )


def changed_often(installation: Installation) -> Iterator[Problem]:
    """Look for resources whose objects have many versions in the history."""
    file = installation.sqlite_file
    if file is None:
        return
    for resource_size in resource_sizes(file, installation.config.store.key_root):
        yield from changes_problem(
            resource_size.prefix, resource_size.versions, resource_size.objects
        )


def changes_problem(about: str, versions: int, objects: int) -> Iterator[Problem]:
    """Yield a problem of a resource whose objects have many versions in the history."""
    if versions >= VERSIONS and versions > VERSIONS_PER_OBJECT * objects:
        yield Problem(
            severity=WARNING,
            about=about,
            message=f"the history has {versions} versions of {objects} objects: something changes "
            "them all the time",
            remedy="see who writes: managedFields of the objects, or the audit log; the history "
            "ends after --etcd-compaction-interval",
        )


def store_figures(installation: Installation) -> dict[str, float]:
    """Return the bytes of the file, and those of the largest resources, by name."""
    file = installation.sqlite_file
    if file is None:
        return {}
    figures: dict[str, float] = {f"bytes of {file.name}": summarize(file).size}
    for resource_size in resource_sizes(file, installation.config.store.key_root):
        figures[f"bytes of {resource_size.prefix}"] = resource_size.size
    return figures
