"""The manager: starts and stops controllers, as leader if several processes run them.

async with Manager([DatabaseController]).run(client) as running:
    await running.wait_settled()  # in a test
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

from kapiserver.api.resource_client import Client
from kapiserver.apiserver.metrics import WorkQueueMetrics
from kapiserver.extension.controllers.controller import Controller, ControllerContext
from kapiserver.storage.concurrency.clock import Clock, SystemClock

ControllerClass: TypeAlias = type[Controller[Any]]


class RunningControllers:
    """The controllers of one manager, while they run; each start makes new ones."""

    def __init__(self, classes: Sequence[ControllerClass], context: ControllerContext) -> None:
        self._classes = classes
        self._context = context
        self.controllers: Sequence[Controller[Any]] = ()

    async def start(self) -> None:
        """Make the controllers and start them."""
        self.controllers = [make(self._context) for make in self._classes]
        for controller in self.controllers:
            controller.start()

    async def stop(self) -> None:
        """Stop the controllers."""
        controllers, self.controllers = self.controllers, ()
        await asyncio.gather(*(controller.stop() for controller in controllers))

    @property
    def is_ready(self) -> bool:
        """Whether the informers of all controllers have all objects; so is a process that waits to
        be the leader."""
        return all(controller.is_synced for controller in self.controllers)

    async def wait_settled(self) -> None:
        """Wait until no controller has anything left to do at this time of its clock. Raises
        StatusError."""
        before = -1
        while before != (before := self._reconciles()):
            for controller in self.controllers:
                await controller.wait_settled()

    def _reconciles(self) -> int:
        return sum(controller.reconciles for controller in self.controllers)


class Manager:
    """The controllers of a program.

    controllers     classes with the decorator `reconciles`
    """

    def __init__(self, controllers: Sequence[ControllerClass]) -> None:
        for controller in controllers:
            if not hasattr(controller, "declaration"):
                raise TypeError(f"{controller.__name__} lacks the decorator reconciles")
        self.controllers = tuple(controllers)

    @asynccontextmanager
    async def run(
        self,
        client: Client,
        *,
        clock: Clock | None = None,
        namespace: str = "",
        metrics: WorkQueueMetrics | None = None,
        lease: str = "",
    ) -> AsyncIterator[RunningControllers]:
        """Run the controllers until the block ends. With a `lease`, NAMESPACE/NAME, they run while
        this process holds that Lease: it is the leader."""
        context = ControllerContext(
            client=client,
            clock=clock or SystemClock(),
            namespace=namespace,
            metrics=metrics or WorkQueueMetrics(),
        )
        running = RunningControllers(self.controllers, context)
        if not lease:
            await running.start()
            try:
                yield running
            finally:
                await running.stop()
            return
        from kapiserver.controllers.loop.leader import COORDINATION, LeaderElector

        lease_namespace, _, name = lease.rpartition("/")
        leases = client.resource(COORDINATION, "leases", namespace=lease_namespace)
        elector = LeaderElector(
            leases, context.clock, name=name, start=running.start, stop=running.stop
        )
        elector.start()
        try:
            yield running
        finally:
            await elector.stop()

    def main(self, arguments: Sequence[str] | None = None) -> int:
        """Run the controllers against the cluster of a kubeconfig until a signal, and return the
        exit code."""
        from kapiserver.extension.controllers.command import run

        names = [controller.__name__ for controller in self.controllers]
        return run(self.run, names, arguments)
