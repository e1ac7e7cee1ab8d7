"""Writes that share a transaction of PostgreSQL."""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import Coroutine
from typing import Any

import pytest

from kapiserver.storage.errors import Conflict, KeyExists, Unavailable
from kapiserver.storage.kv.contract import KeyValue, Revision
from tests.storage.postgresql_server import binaries
from tests.storage.postgresqlkit import Open, opened, run_sql, schema, tables
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


@pytest.mark.parametrize("size", [1, 1000])
async def test_an_answer_in_pieces(opened: Open, size: int) -> None:
    """An answer may arrive in pieces, with the values of changed keys and with notices."""
    async with opened() as view:
        revision = await view.create("/a/x", secrets.token_bytes(3000))
        session = view._connections._write_session
        assert session is not None
        receive = session.data_received

        def receive_pieces(data: bytes) -> None:
            data = b"N\0\0\0\x08Mhi\0" + data
            for at in range(0, len(data), size):
                receive(data[at : at + size])

        session.data_received = receive_pieces  # type: ignore[method-assign]
        session._transport.set_protocol(session)  # the transport keeps the method
        with pytest.raises(Conflict) as raised:
            await view.update("/a/x", b"", expected=Revision(revision + 1))
        item = (await view.get("/a/x")).item
        assert item is not None
        assert raised.value.value == item.value
        await view.update("/a/x", b"", expected=revision)
        assert view._connections._write_session is session


@pytest.mark.parametrize("received", [b"Z\0\0\0\5I", b"G\0\0\0\7\0\0\0"])
async def test_unexpected_messages(opened: Open, received: bytes) -> None:
    """A connection on which PostgreSQL says anything else is replaced, and no write fails."""
    async with opened() as view:
        await view.create("/a/x", b"")
        session = view._connections._write_session
        assert session is not None
        session.data_received(received)
        await view.create("/a/y", b"")
        assert view._connections._write_session is not session


async def test_an_error_of_postgresql(opened: Open, tables: str) -> None:
    """A write that PostgreSQL refuses ends with its message, and the next one uses the same
    connection."""
    async with opened() as view:
        await view.create("/a/x", b"")
        session = view._connections._write_session
        rule = f"ALTER TABLE {tables}.log ADD CONSTRAINT few CHECK (octet_length(value) < 5)"
        await run_sql(rule)
        with pytest.raises(Unavailable, match='violates check constraint "few"'):
            await view.create("/a/y", b"123456")
        await view.create("/a/y", b"1")
        assert view._connections._write_session is session


async def test_random_batches(opened: Open) -> None:
    """Of batches of creates, updates and deletions, some of which fail, each revision is as a model
    says: every list, page and object of it."""
    chance = random.Random(30)
    keys = [f"/a/{number}" for number in range(8)]
    state: dict[str, KeyValue] = {}
    async with opened() as view:
        states = {await view.current_revision(): state}
        for _ in range(40):
            works: list[tuple[str, bytes | None, Coroutine[Any, Any, Revision]]] = []
            for key in chance.sample(keys, 5):
                value = chance.randbytes(3)
                known = state[key].revision if key in state else Revision(0)
                expected = Revision(chance.choice([known, known, known, known + 1]))
                if not expected:
                    works.append((key, value, view.create(key, value)))
                elif chance.random() < 0.3:
                    works.append((key, None, view.delete(key, expected=expected)))
                else:
                    works.append((key, value, view.update(key, value, expected=expected)))
            outcomes = await asyncio.gather(*(work for *_, work in works), return_exceptions=True)
            for (key, value, _), revision in zip(works, outcomes, strict=True):
                if isinstance(revision, BaseException):
                    assert isinstance(revision, Conflict | KeyExists)
                    continue
                states[revision] = state = dict(state)
                if value is None:
                    del state[key]
                else:
                    state[key] = KeyValue(key, value, revision)
        for revision, past in states.items():
            expected_items = [past[key] for key in sorted(past)]
            page = await view.range("/a/", revision=revision)
            assert list(page.items) == expected_items
            page = await view.range("/a/", revision=revision, start="/a/2", limit=2)
            later = [item for item in expected_items if item.key >= "/a/2"]
            assert list(page.items) == later[:2]
            assert page.remaining == len(later[2:])
            for key in keys:
                assert (await view.get(key, revision=revision)).item == past.get(key)
