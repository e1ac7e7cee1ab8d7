"""An operator in the process of its server connects without TLS, and shows its token."""

from __future__ import annotations

import asyncio

import httpx

from kapiserver.exploring.running.operators.in_process import serving_without_tls
from kapiserver.testing.server import TestServer

PATH = "/api/v1/namespaces/default/configmaps"


def test_tokens_without_tls() -> None:
    """The port knows whose a token is, and RBAC what the user may do; the port ends with its
    block."""
    assert asyncio.run(_statuses()) == {"administrator": 200, "user": 403, "nobody": 401, "end": 0}


async def _statuses() -> dict[str, int]:
    async with TestServer() as server:
        tokens = {
            "administrator": server.add_token("admin", ["system:masters"]),
            "user": server.add_token("user"),
            "nobody": "unknown",
        }
        statuses = {}
        async with serving_without_tls(server) as url:
            for name, token in tokens.items():
                statuses[name] = await _status(url, token)
        return statuses | {"end": await _status(url, tokens["administrator"])}


async def _status(url: str, token: str) -> int:
    """Return the status of a list, 0 if nothing listens."""
    async with httpx.AsyncClient() as client:
        try:
            response = await client.get(
                f"{url}{PATH}", headers={"Authorization": f"Bearer {token}"}
            )
        except httpx.ConnectError:
            return 0
        return response.status_code
