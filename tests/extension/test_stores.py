"""Resources whose objects are in stores of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kapiserver.extension import Object, ObjectSource, Resource
from tests.extension.servers import serving
from tests.storage.etcd_server import Member, running_member


class Order(Object):
    """An order: in the store of the server."""


class Session(Object):
    """A session, which is gone after a restart."""


class Invoice(Object):
    """An invoice, in a file of its own."""


class Lock(Object):
    """A lock, which other servers see."""


@pytest.fixture(scope="module")
def etcd() -> Iterator[Member]:
    with running_member() as member:
        yield member


def _resources(folder: Path, etcd: Member) -> list[Resource[Any]]:
    return [
        Resource(Order, group="example.com"),
        Resource(Session, group="example.com", storage="sqlite::memory:"),
        Resource(Invoice, group="example.com", storage=f"sqlite:{folder / 'invoices.db'}"),
        Resource(Lock, group="example.com", storage=f"etcd:{etcd.url}"),
    ]


def test_stores(tmp_path: Path, etcd: Member) -> None:
    """Each resource is in its store: what is durable is there after a restart."""
    storage = f"sqlite:{tmp_path / 'server.db'}"

    async def names(client: Any) -> dict[str, int]:
        counts = {}
        for plural in ("orders", "sessions", "invoices", "locks"):
            resource = client.resource("example.com/v1", plural, namespace="default")
            page = await resource.list_page(limit=1)
            token = page["metadata"].get("continue")
            rest = await resource.list_page(**{"continue": token}) if token else {"items": []}
            counts[plural] = len(page["items"]) + len(rest["items"])
        return counts

    async def run() -> None:
        resources = _resources(tmp_path, etcd)
        async with serving(*resources, storage=storage) as (_, client):
            for resource in resources:
                objects = client.resource("example.com/v1", resource.plural, namespace="default")
                events = objects.follow()
                for name in ("one", "two"):
                    await objects.create({"kind": resource.kind, "metadata": {"name": name}})
                assert [(await anext(events)).type for _ in range(2)] == ["ADDED", "ADDED"]
                await events.aclose()
            assert set((await names(client)).values()) == {2}
            assert await client.call("GET", "/readyz") == {"message": "ok"}
        assert (tmp_path / "invoices.db").exists()
        async with serving(*_resources(tmp_path, etcd), storage=storage) as (_, client):
            assert await names(client) == {"orders": 2, "sessions": 0, "invoices": 2, "locks": 2}
        elsewhere = f"sqlite:{tmp_path / 'other.db'}"
        async with serving(*_resources(tmp_path, etcd), storage=elsewhere) as (_, client):
            assert await names(client) == {"orders": 0, "sessions": 0, "invoices": 2, "locks": 2}

    asyncio.run(asyncio.wait_for(run(), 60))


def test_bad_storage() -> None:
    """A store that there is not is refused at the start, and one of a virtual resource before."""

    class Source(ObjectSource[Order]):
        pass

    with pytest.raises(ValueError, match="a virtual resource has no storage"):
        Resource(Order, group="example.com", storage="sqlite::memory:", source=Source())

    async def run() -> None:
        async with serving(Resource(Order, group="example.com", storage="nothing:here")):
            pass

    with pytest.raises(ValueError, match="nothing:here"):
        asyncio.run(run())
