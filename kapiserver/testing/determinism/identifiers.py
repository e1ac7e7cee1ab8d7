"""Uids, generated names, addresses and ports that are the same in each run."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeVar
from uuid import UUID

from kapiserver.storage.cache.offload import Offloader
from kapiserver.storage.objects.lifecycle import NAME_LETTERS, NAME_SUFFIX

Result = TypeVar("Result")

START = datetime(2025, 1, 1, tzinfo=UTC).timestamp()
"""The time at the start of a server with a seed, in seconds since the epoch."""


class SeededIdentifiers:
    """Identifiers that follow from a seed and the order of the writes; an `IdentifierSource`."""

    def __init__(self, seed: int | str) -> None:
        self.rng = random.Random(f"addresses {seed}")
        self._uids = random.Random(f"uids {seed}")
        self._suffixes = random.Random(f"suffixes {seed}")

    def uid(self) -> str:
        """Return a UUID (version 4)."""
        return str(UUID(int=self._uids.getrandbits(128), version=4))

    def suffix(self) -> str:
        """Return a suffix for metadata.generateName."""
        return "".join(self._suffixes.choices(NAME_LETTERS, k=NAME_SUFFIX))


class InlineOffloader(Offloader):
    """Runs long work on the event loop: the result of a thread would come at any turn of the
    loop."""

    async def run_in_thread(
        self,
        work: Callable[..., Result],
        *args: object,
        limited: bool = True,  # noqa: ARG002 - nothing waits
    ) -> Result:
        """Return `work(*args)`."""
        return work(*args)
