"""Writes that share a transaction of PostgreSQL."""

from __future__ import annotations

import asyncio

import pytest

from kapiserver.storage.errors import Conflict, KeyExists
from kapiserver.storage.kv.contract import Revision
from tests.storage.postgresql_server import binaries
from tests.storage.postgresqlkit import Open, opened, schema, tables
from tests.storage.recorder import Recorder

__all__ = ["opened", "schema", "tables"]
pytestmark = pytest.mark.skipif(binaries() is None, reason="no PostgreSQL is installed")


async def test_writes_of_a_key_in_one_batch(opened: Open) -> None:
    """Writes of one key that wait together are applied in order."""
    async with opened() as view:
        outcomes = await asyncio.gather(
            *(view.create("/a/x", bytes([number])) for number in range(5)), return_exceptions=True
        )
        assert isinstance(outcomes[0], int)
        assert all(isinstance(outcome, KeyExists) for outcome in outcomes[1:])
        item = (await view.get("/a/x")).item
        assert item is not None
        assert item.value == b"\0"


async def test_a_batch_of_which_some_writes_fail(opened: Open) -> None:
    """Writes that fail take no revision, and the others of their transaction have no gap."""
    async with opened() as view:
        old = await view.create("/a/old", b"1")
        recorder = Recorder()
        view.watch("/a/", after=old, sink=recorder)
        outcomes = await asyncio.gather(
            view.create("/a/old", b"2"),
            view.create("/a/new", b"3"),
            view.update("/a/other", b"4", expected=old),
            view.update("/a/more", b"5", expected=Revision(old - 1)),
            view.create("/a/last", b"6"),
            return_exceptions=True,
        )
        assert [type(outcome) for outcome in outcomes] == [KeyExists, int, Conflict, Conflict, int]
        assert [event.revision for event in await recorder.count(2)] == [old + 1, old + 2]
        assert await view.current_revision() == old + 2
        failed = await asyncio.gather(
            view.create("/a/old", b"7"),
            view.update("/a/new", b"8", expected=old),
            return_exceptions=True,
        )
        assert [type(outcome) for outcome in failed] == [KeyExists, Conflict]
        assert isinstance(failed[1], Conflict)
        assert (failed[1].current, failed[1].value) == (old + 1, b"3")
        assert await view.create("/a/after", b"") == old + 3
