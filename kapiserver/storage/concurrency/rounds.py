"""Rounds of the event loop: in each one, all tasks run that are ready."""

from __future__ import annotations

import asyncio

from kapiserver.storage.concurrency.time_slice import TimeSlice

BUSY_SECONDS = 0.0001
"""A round that takes longer had other work."""


async def wait_while_busy(seconds: float) -> None:
    """Return when a round of the event loop is short, so that no other work is ready, or after so
    many seconds. A call that others can share waits for those whom the loop is about to begin."""
    limit = TimeSlice(seconds)
    while not limit.expired:
        round_time = TimeSlice(BUSY_SECONDS)
        await asyncio.sleep(0)
        if not round_time.expired:
            return
