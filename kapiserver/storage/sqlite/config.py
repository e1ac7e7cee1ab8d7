"""The settings of the backend sqlite. Importing it does not import the store."""

from __future__ import annotations

from msgspec import Struct


class SqliteSettings(Struct, frozen=True, kw_only=True):
    """The settings of the backend sqlite.

    unsafe_no_fsync     do not flush transactions to disk
    """

    unsafe_no_fsync: bool = False
