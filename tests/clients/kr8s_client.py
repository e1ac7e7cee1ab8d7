"""A client of kr8s whose connections are closed: it has no method for that, and kr8s keeps the last
client in a cache."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any


@asynccontextmanager
async def kr8s_client(kubeconfig: str) -> AsyncIterator[Any]:
    """Open a `kr8s.asyncio.Api`."""
    import kr8s.asyncio

    api = await kr8s.asyncio.api(kubeconfig=kubeconfig)
    try:
        yield api
    finally:
        await api._session.aclose()
