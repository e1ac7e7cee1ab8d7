"""Two instances that overlap write together."""

from __future__ import annotations

import asyncio

from kapiserver.exploring.running.injecting.gates import Meeting


def test_the_first_writes_of_two_instances_pass_together() -> None:
    """The first one waits for that of the other instance; later ones do not wait."""

    async def write_twice() -> list[str]:
        passed: list[str] = []
        meeting = Meeting()

        async def write(instance: int, text: str) -> None:
            await meeting.meet(instance)
            passed.append(text)

        first = asyncio.create_task(write(1, "first"))
        await asyncio.sleep(0)
        assert passed == []
        await write(2, "second")
        await first
        await write(1, "third")
        return passed

    *both, last = asyncio.run(write_twice())
    assert sorted(both) == ["first", "second"]
    assert last == "third"
