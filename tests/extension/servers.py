"""Runs an extension API server for a test, with a client that is its administrator."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from kapiserver.apiserver.config import Config
from kapiserver.client import Client
from kapiserver.extension import ApiServer, Resource
from kapiserver.extension.serving import RunningServer


@asynccontextmanager
async def serving(
    *resources: Resource[Any], **settings: Any
) -> AsyncIterator[tuple[RunningServer, Client]]:
    """Serve resources on a plain port; the settings are those of Config."""
    defaults: dict[str, Any] = {"secure_port": None, "insecure_port": 0, "shutdown_timeout": 1}
    config = Config.of(**defaults | settings)
    async with (
        ApiServer(resources).serve(config) as running,
        Client(running.url, retry_seconds=0.01) as client,
    ):
        yield running, client
