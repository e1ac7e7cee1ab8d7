"""Callers that wait for the events up to a revision."""

from __future__ import annotations

import asyncio

import pytest

from kapiserver.storage.concurrency.background_tasks import BackgroundTasks
from kapiserver.storage.errors import Unavailable
from kapiserver.storage.kv import delivery_waits
from kapiserver.storage.kv.contract import Revision
from kapiserver.storage.kv.delivery_waits import DeliveryWaits


class Store:
    """A store that is asked for its events; `answer` lets it answer."""

    def __init__(self, error: Exception | None = None) -> None:
        self.tasks = BackgroundTasks[None]()
        self.waits = DeliveryWaits(self.tasks, self._make_current)
        self.asked = asyncio.Event()
        self.answer = asyncio.Event()
        self.called: list[str] = []
        self._is_called = asyncio.Event()
        self._error = error

    def wait(self, revision: int, name: str) -> None:
        self.waits.add(Revision(revision), lambda: self._call(name))

    def _call(self, name: str) -> None:
        self.called.append(name)
        self._is_called.set()

    async def wait_called(self, count: int) -> None:
        while len(self.called) < count:
            self._is_called.clear()
            await self._is_called.wait()

    async def _make_current(self) -> None:
        self.asked.set()
        await self.answer.wait()
        if self._error is not None:
            raise self._error


async def test_callers_are_called_when_their_revision_is_delivered() -> None:
    """Callers are called in their order, each once; those of later revisions go on waiting."""
    store = Store()
    for revision, name in ((5, "a"), (7, "b"), (4, "c")):
        store.wait(revision, name)
    store.waits.delivered(Revision(3))
    assert store.called == []
    store.waits.delivered(Revision(5))
    assert store.called == ["a", "c"]
    store.waits.delivered(Revision(9))
    store.waits.delivered(Revision(9))
    assert store.called == ["a", "c", "b"]
    store.waits.stop()


@pytest.mark.parametrize("error", [None, Unavailable("etcd is away")], ids=["answers", "fails"])
async def test_a_store_is_asked_for_events_that_do_not_come(
    monkeypatch: pytest.MonkeyPatch, error: Exception | None
) -> None:
    """When events have not come in time, the store is asked for them, and callers are called even
    if that fails. Those who came meanwhile are called after another time."""
    monkeypatch.setattr(delivery_waits, "GRACE_SECONDS", 0.0)
    store = Store(error)
    store.wait(5, "a")
    await store.asked.wait()
    store.wait(6, "b")
    assert not store.called
    store.answer.set()
    await store.wait_called(2)
    assert store.called == ["a", "b"]


async def test_nobody_is_called_after_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Callers of a store that was closed are not called."""
    monkeypatch.setattr(delivery_waits, "GRACE_SECONDS", 0.0)
    store = Store()
    store.wait(5, "a")
    store.waits.stop()
    for _ in range(3):
        await asyncio.sleep(0)
    store.waits.delivered(Revision(9))
    assert not store.called
    assert not store.asked.is_set()
