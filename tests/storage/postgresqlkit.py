"""What the tests of the PostgreSQL store share: a schema for each test, which servers open."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from kapiserver.storage.postgresql.layout import quoted
from kapiserver.storage.postgresql.store import (
    PostgresqlConfig,
    PostgresqlStore,
    open_postgresql,
)
from tests.clock import ManualClock
from tests.storage.postgresql_server import shared_postgresql

asyncpg = pytest.importorskip("asyncpg")

Open = Callable[..., AbstractAsyncContextManager[PostgresqlStore]]


@pytest.fixture
def schema() -> str:
    return f'a "b" {uuid.uuid4().hex[:8]}'


@pytest.fixture
def tables(schema: str) -> str:
    """The test's schema, as a statement names it."""
    return quoted(schema)


@pytest.fixture
def opened(schema: str, clock: ManualClock) -> Open:
    """Opens another server's view of the test's schema."""

    @asynccontextmanager
    async def open_view(url: str = "", **more: object) -> AsyncIterator[PostgresqlStore]:
        config = PostgresqlConfig(
            **{"address": url or shared_postgresql().url, "schema": schema} | more  # type: ignore[arg-type]
        )
        view = await open_postgresql(config, clock=clock)
        try:
            yield view
        finally:
            await view.close()

    return open_view


async def run_sql(query: str, *args: object, url: str = "") -> list[tuple[object, ...]]:
    """Run one statement as the administrator."""
    connection = await asyncpg.connect(url or shared_postgresql().url)
    try:
        return [tuple(row) for row in await connection.fetch(query, *args)]
    finally:
        await connection.close()
