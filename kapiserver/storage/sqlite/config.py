"""The settings of the backend sqlite. Importing it does not import the store."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from kapiserver.storage.kv.flag import Flag


class SqliteSettings(Struct, frozen=True, kw_only=True):
    """The settings of the backend sqlite.

    unsafe_no_fsync     do not flush transactions to disk
    """

    unsafe_no_fsync: bool = False

    FLAGS: ClassVar[tuple[Flag, ...]] = (
        Flag(
            setting="unsafe_no_fsync",
            metavar="BOOL",
            help="Do not flush writes to disk, as etcd with the flag of that name: for tests. A "
            "power failure may damage the SQLite file; the end of the process does not. "
            "Default: false.",
        ),
    )
