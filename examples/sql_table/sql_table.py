"""Serves the rows of a SQLite table as a Kubernetes resource: `kubectl get customers`, with watch.

    python sql_table.py shop.db

Other programs write to the table, too. The server notices their commits by the data version of the
file, and watches see them within POLL_SECONDS.
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from collections.abc import AsyncIterator, Iterable
from typing import Annotated

from msgspec import Meta, Struct

from kapiserver.extension import ApiServer, Column, Object, ObjectMeta, ObjectSource, Resource

POLL_SECONDS = 0.1
TABLE = """
CREATE TABLE IF NOT EXISTS customers (
    name TEXT PRIMARY KEY,
    email TEXT NOT NULL,
    credit INTEGER NOT NULL DEFAULT 0
) STRICT
"""


class CustomerSpec(Struct):
    """What the shop knows about the customer."""

    email: Annotated[str, Meta(description="Where invoices go.", pattern=".@.")]
    credit: Annotated[int, Meta(ge=0, description="How much the customer may owe, in cents.")] = 0


class Customer(Object):
    """A customer of the shop: a row of the table customers."""

    spec: CustomerSpec


class Customers(ObjectSource[Customer]):
    """The rows of the table."""

    def __init__(self, path: str) -> None:
        self._database = sqlite3.connect(path, isolation_level=None)
        self._database.execute(TABLE)

    async def list(self) -> Iterable[Customer]:
        rows = self._database.execute("SELECT name, email, credit FROM customers")
        return [
            Customer(metadata=ObjectMeta(name=name), spec=CustomerSpec(email=email, credit=credit))
            for name, email, credit in rows
        ]

    async def changes(self) -> AsyncIterator[None]:
        seen = None
        while True:
            (version,) = self._database.execute("PRAGMA data_version").fetchone()
            if version != seen:
                seen = version
                yield
            await asyncio.sleep(POLL_SECONDS)

    async def create(self, new: Customer) -> None:
        row = (new.metadata.name, new.spec.email, new.spec.credit)
        self._database.execute("INSERT INTO customers VALUES (?, ?, ?)", row)

    async def update(self, new: Customer, old: Customer) -> None:
        row = (new.spec.email, new.spec.credit, new.metadata.name)
        self._database.execute("UPDATE customers SET email = ?, credit = ? WHERE name = ?", row)

    async def delete(self, old: Customer) -> None:
        self._database.execute("DELETE FROM customers WHERE name = ?", (old.metadata.name,))


def api_server(path: str) -> ApiServer:
    """Return the API server of the tables in a file."""
    customers = Resource(
        Customer,
        group="shop.example.com",
        namespaced=False,
        columns=[
            Column(name="Email", json_path=".spec.email"),
            Column(name="Credit", type="integer", json_path=".spec.credit"),
        ],
        selectable_fields=[".spec.email"],
        source=Customers(path),
    )
    return ApiServer([customers])


if __name__ == "__main__":
    sys.exit(api_server(sys.argv[1]).main(sys.argv[2:]))
