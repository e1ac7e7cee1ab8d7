"""Work of a controller that its reconciles do not wait for, such as the writes of events."""

from __future__ import annotations

from typing import Protocol


class BackgroundWork(Protocol):
    """Work that a controller waits for to be settled, and stops."""

    @property
    def is_idle(self) -> bool:
        """Whether nothing is left to do."""

    async def wait_idle(self) -> None:
        """Wait until nothing is left to do."""

    async def stop(self) -> None:
        """Drop what is left to do."""
