"""An open cluster: its handler of requests, and its controllers, which start behind the first
answer."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Awaitable, Callable

from kapiserver.api.resource_client import StatusError
from kapiserver.apiserver.allocation.repair import AllocationRepair
from kapiserver.cluster import Cluster
from kapiserver.control_loops import start_repair, stop_together
from kapiserver.controllers.manager import ControllerManager
from kapiserver.storage.concurrency.clock import Timer
from kapiserver.storage.errors import StorageError

RETRY_SECONDS = 2.0
"""Pause before controllers are started again that the store has kept from it."""

_log = logging.getLogger(__name__)


class RunningCluster:
    """A cluster that is open.

    cluster     its parts
    """

    def __init__(self, cluster: Cluster, start: Callable[[], Awaitable[ControllerManager]]) -> None:
        """`start` starts the controllers."""
        self.cluster = cluster
        self._start = start
        self._starting: asyncio.Task[None] | None = None
        self._retry: Timer | None = None
        self._has_failed = False
        """Whether the log says that the controllers do not run yet."""
        self._controllers: ControllerManager | None = None
        self._repair: AllocationRepair | None = None

    def start_controllers(self) -> None:
        """Start the controllers, without waiting for them. Idempotent. The first request need not
        wait for them: what a new cluster has comes from its template, and what it had at rest is
        settled."""
        if self._starting is None:
            self._starting = asyncio.get_running_loop().create_task(
                self._run(), context=contextvars.Context()
            )

    async def _run(self) -> None:
        server = self.cluster.server
        try:
            self._controllers = await self._start()
            self._repair = start_repair(self.cluster)
        except (StorageError, StatusError) as error:
            level = logging.DEBUG if self._has_failed else logging.WARNING
            _log.log(level, "no controllers in cluster %s yet: %s", server.cluster_name, error)
            self._has_failed = True
            self._retry = server.clock.call_later(RETRY_SECONDS, self._start_again)
        except Exception:
            _log.exception(
                "the controllers of cluster %s do not run until it is opened again",
                server.cluster_name,
            )

    def _start_again(self) -> None:
        self._starting = self._retry = None
        self.start_controllers()

    async def controllers(self) -> ControllerManager | None:
        """Start the controllers, and return their manager; None if they cannot run."""
        self.start_controllers()
        assert self._starting is not None
        await asyncio.wait([self._starting])
        return self._controllers

    @property
    def is_settled(self) -> bool:
        """Whether the controllers have nothing to do, or are not needed."""
        if self._retry is not None or (self._starting is not None and not self._starting.done()):
            return False
        return self._controllers is None or self._controllers.settled

    async def wait_settled(self) -> None:
        """Wait until the controllers have nothing to do. Raises StorageError."""
        if self._starting is not None:
            await asyncio.wait([self._starting])
        if self._controllers is not None:
            await self._controllers.wait_settled()

    @property
    def next_due(self) -> float | None:
        """The time at which a controller next has work that it has put off; None if none has."""
        return None if self._controllers is None else self._controllers.next_due

    async def stop_controllers(self) -> None:
        """Stop the controllers, when they have started."""
        if self._retry is not None:
            self._retry.cancel()
        if self._starting is not None:
            await asyncio.wait([self._starting])
        loops = [loop for loop in (self._controllers, self._repair) if loop is not None]
        await stop_together(loops)
