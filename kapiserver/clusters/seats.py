"""The seats of one logical cluster: how many of its requests execute at a time.

One event loop serves all clusters. A cluster with a thousand clients would have a thousand requests
in each round of it; with four seats it has four, and delays a request of another cluster by four
at most. The objects of priority and fairness in a cluster do not bound this, since its
administrator may change them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kapiserver.apiserver.errors import ServiceUnavailable, TooManyRequests

WAITING_PER_SEAT = 100
"""Requests that may wait for each seat; more get 429."""


class Seats:
    """The seats of one cluster, until `close`."""

    def __init__(self, count: int) -> None:
        self._free = asyncio.Semaphore(count)
        self._count = count
        self._waiting = 0
        self._is_closed = False

    @asynccontextmanager
    async def take(self) -> AsyncIterator[None]:
        """Hold a seat until the block ends; wait for one in the order of arrival. Raises
        TooManyRequests if too many wait, ServiceUnavailable if the cluster closes."""
        if self._waiting >= self._count * WAITING_PER_SEAT:
            raise TooManyRequests
        self._waiting += 1
        try:
            await self._free.acquire()
        finally:
            self._waiting -= 1
        try:
            if self._is_closed:
                raise ServiceUnavailable("the cluster is being closed, please try again later")
            yield
        finally:
            self._free.release()

    async def close(self) -> None:
        """Refuse those that wait and those that come, and wait until no request executes."""
        self._is_closed = True
        for _ in range(self._count):
            await self._free.acquire()
        for _ in range(self._count):
            self._free.release()
