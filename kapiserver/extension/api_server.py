"""ApiServer: the resources of one extension API server, and how it starts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from kapiserver.extension.delegation import STANDS_ALONE, Delegation
from kapiserver.extension.resources import Resource

if TYPE_CHECKING:
    from kapiserver.apiserver.config import Config
    from kapiserver.extension.controllers.controller import Controller
    from kapiserver.extension.serving import RunningServer
    from kapiserver.storage.concurrency.clock import Clock


class ApiServer:
    """An extension API server.

    resources   what it serves; their names differ
    controllers classes with the decorator `reconciles`, which run in its process
    """

    def __init__(
        self, resources: Sequence[Resource[Any]], controllers: Sequence[type[Controller[Any]]] = ()
    ) -> None:
        self.resources = tuple(resources)
        self.controllers = tuple(controllers)
        names = [resource.name for resource in self.resources]
        if len(set(names)) < len(names):
            raise ValueError(f"two resources have the same name: {', '.join(sorted(names))}")

    @asynccontextmanager
    async def serve(
        self,
        config: Config | None = None,
        *,
        delegation: Delegation = STANDS_ALONE,
        clock: Clock | None = None,
    ) -> AsyncIterator[RunningServer]:
        """Serve until the block ends, then drain. Without settings it stores objects in memory and
        picks a free port; outside of pods it has no host cluster. Raises ValueError and OSError for
        an unusable setting or file, StorageError."""
        from kapiserver.extension.serving import serve  # loads the server

        serving = serve(
            self.resources,
            config,
            delegation=delegation,
            controllers=self.controllers,
            clock=clock,
        )
        async with serving as running:
            yield running

    def main(self, arguments: Sequence[str] | None = None) -> int:
        """Run the command line of the server until a signal, and return the exit code."""
        from kapiserver.extension.command import run

        return run(self.resources, self.controllers, arguments)
