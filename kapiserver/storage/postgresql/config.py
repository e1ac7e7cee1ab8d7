"""The settings of the backend postgresql. Importing it does not import the store."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from kapiserver.storage.kv.flag import Flag


class PostgresqlSettings(Struct, frozen=True, kw_only=True):
    """The settings of the backend postgresql.

    postgresql_schema           the schema of the tables, which is created if it is missing
    postgresql_max_connections  the maximum number of connections of a store, at least 3: one
                                listens, one writes, the others read
    """

    postgresql_schema: str = "kapiserver"
    postgresql_max_connections: int = 8

    FLAGS: ClassVar[tuple[Flag, ...]] = (
        Flag(
            setting="postgresql_schema",
            metavar="NAME",
            help="Schema of the PostgreSQL database that holds the store's tables. It is created "
            "if it is missing. Servers with the same schema share the store. Default: %(default)s.",
        ),
        Flag(
            setting="postgresql_max_connections",
            metavar="N",
            help="Maximum number of connections to PostgreSQL, at least 3: one listens, one "
            "writes, the others read. Default: %(default)s.",
        ),
    )
