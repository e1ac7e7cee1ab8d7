"""The queue of things to look at."""

from __future__ import annotations

import asyncio

import pytest

from kapiserver.controllers.workqueue import Work
from tests.clock import ManualClock


@pytest.mark.parametrize("turns", range(8))
def test_nothing_that_is_put_is_forgotten(turns):
    """What is put while the last worker ends is looked at, at whichever turn of the loop."""

    async def looked_at():
        found = []

        async def look(item):
            found.append(item)

        work = Work(look, ManualClock(), workers=1, name="test")
        work.put("first")
        for _ in range(turns):
            await asyncio.sleep(0)
        work.put("second")
        for _ in range(8):
            await asyncio.sleep(0)
        await work.stop()
        return found

    assert asyncio.run(looked_at()) == ["first", "second"]


def test_stopping_breaks_off():
    """After a stop nothing goes on, neither what is being looked at nor what is put later."""

    async def seen():
        found = []

        async def look(item):
            found.append(item)
            await asyncio.Event().wait()

        work = Work(look, ManualClock(), workers=1, name="test")
        work.put("first")
        work.put("second")
        await asyncio.sleep(0)
        async with asyncio.timeout(20):
            await work.stop()
        work.put("third")
        await asyncio.sleep(0)
        return found, len(asyncio.all_tasks())

    assert asyncio.run(seen()) == (["first"], 1)
