"""Rows that this API or another program writes are objects of one resource."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from sql_table import api_server

from kapiserver.apiserver.config import Config
from kapiserver.client import Client, Resource, StatusError

Test = Callable[[Resource, sqlite3.Connection], Coroutine[Any, Any, None]]


def run(folder: Path, test: Test) -> None:
    """Run a test with a client of the server, and the database of the other program."""
    path = str(folder / "shop.db")

    async def run_with_server() -> None:
        config = Config.of(secure_port=None, insecure_port=0)
        async with api_server(path).serve(config) as server, Client(server.url) as client:
            other = sqlite3.connect(path, isolation_level=None)
            resource = client.resource("shop.example.com/v1", "customers")
            await asyncio.wait_for(test(resource, other), 30)
            other.close()

    asyncio.run(run_with_server())


def customer(name: str, email: str) -> dict[str, Any]:
    head = {"apiVersion": "shop.example.com/v1", "kind": "Customer", "metadata": {"name": name}}
    return {**head, "spec": {"email": email}}


def test_writes(tmp_path: Path) -> None:
    """The API writes rows, after the checks of the schema and of resource versions."""

    async def test(customers: Resource, other: sqlite3.Connection) -> None:
        created = await customers.create(customer("ann", "ann@example.com"))
        assert created["spec"] == {"email": "ann@example.com", "credit": 0}
        changed = await customers.patch("ann", {"spec": {"credit": 500}})
        assert other.execute("SELECT * FROM customers").fetchall() == [
            ("ann", "ann@example.com", 500)
        ]
        for body, code in (({**changed, "spec": {"email": "nobody"}}, 422), (created, 409)):
            with pytest.raises(StatusError) as raised:
                await customers.update(body)
            assert raised.value.code == code
        with pytest.raises(StatusError, match="already exists"):
            await customers.create(customer("ann", "other@example.com"))
        same = await customers.get("ann")
        assert same["metadata"] == changed["metadata"]
        await customers.delete("ann")
        assert other.execute("SELECT * FROM customers").fetchall() == []

    run(tmp_path, test)


def test_rows_of_others(tmp_path: Path) -> None:
    """Reads see each commit of another program at once, and a conflict is one."""

    async def test(customers: Resource, other: sqlite3.Connection) -> None:
        for number in range(5):
            row = (f"customer-{number}", f"{number % 2}@example.com")
            other.execute("INSERT INTO customers VALUES (?, ?, 0)", row)
        page = await customers.list_page(limit=2)
        assert [item["metadata"]["name"] for item in page["items"]] == ["customer-0", "customer-1"]
        assert page["metadata"]["remainingItemCount"] == 3
        even = await customers.list_page(fieldSelector="spec.email=0@example.com")
        assert len(even["items"]) == 3
        old = await customers.get("customer-1")
        other.execute("UPDATE customers SET credit = 7 WHERE name = 'customer-1'")
        with pytest.raises(StatusError) as raised:
            await customers.update({**old, "spec": {**old["spec"], "credit": 1}})
        assert raised.value.code == 409
        new = await customers.get("customer-1")
        assert (new["spec"]["credit"], new["metadata"]["generation"]) == (7, 2)
        assert new["metadata"]["uid"] == old["metadata"]["uid"]
        other.execute("DELETE FROM customers WHERE name = 'customer-1'")
        with pytest.raises(StatusError) as raised:
            await customers.get("customer-1")
        assert raised.value.code == 404

    run(tmp_path, test)


def test_watch(tmp_path: Path) -> None:
    """A watch sees the commits of both."""

    async def test(customers: Resource, other: sqlite3.Connection) -> None:
        version = (await customers.list_page())["metadata"]["resourceVersion"]
        events = customers.watch(resourceVersion=version)
        other.execute("INSERT INTO customers VALUES ('bob', 'bob@example.com', 0)")
        first = await anext(events)
        await customers.patch("bob", {"spec": {"credit": 3}})
        second = await anext(events)
        other.execute("DELETE FROM customers")
        third = await anext(events)
        await events.aclose()
        types = [event.type for event in (first, second, third)]
        assert types == ["ADDED", "MODIFIED", "DELETED"]
        assert third.object["spec"]["credit"] == 3

    run(tmp_path, test)
