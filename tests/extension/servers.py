"""Runs an extension API server for a test, with a client that is its administrator."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from kapiserver.apiserver.config import Config
from kapiserver.client import Client
from kapiserver.extension import ApiServer, Resource
from kapiserver.extension.serving import RunningServer


def plain_config(**settings: Any) -> Config:
    """Return settings with a plain port, whose clients are administrators."""
    defaults: dict[str, Any] = {"secure_port": None, "insecure_port": 0, "shutdown_timeout": 1}
    return Config.of(**defaults | settings)


@asynccontextmanager
async def serving(
    *resources: Resource[Any], **settings: Any
) -> AsyncIterator[tuple[RunningServer, Client]]:
    """Serve resources on a plain port; the settings are those of Config."""
    async with (
        ApiServer(resources).serve(plain_config(**settings)) as running,
        Client(running.url, retry_seconds=0.01) as client,
    ):
        yield running, client
