"""Creates the definitions of kwok's kinds, so that its objects can be applied at once."""

from __future__ import annotations

from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.writing import create_missing
from kapiserver.simulation.kwok.kinds import DEFINITIONS


class DefinitionsInstaller(Controller[str]):
    """Creates each missing definition once, at the start. One that somebody has applied before,
    such as kwok's own, stays as it is, and so does the absence of one that somebody deletes."""

    def set_up(self) -> None:
        """Queue the names of all definitions."""
        for name in DEFINITIONS:
            self.queue.add(name)

    async def reconcile(self, name: str) -> None:
        """Create a definition unless it exists."""
        definitions = self.context.resource("apiextensions.k8s.io/v1", "customresourcedefinitions")
        await create_missing(definitions, DEFINITIONS[name])
