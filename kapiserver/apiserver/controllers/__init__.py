"""Loops that keep promises of the API server itself, driven by watches; they poll nothing."""

from __future__ import annotations

from dataclasses import dataclass

from kapiserver.apiserver.context import Server
from kapiserver.apiserver.controllers.bootstrap import create_system_namespaces
from kapiserver.apiserver.controllers.namespace_defaults import NamespaceDefaults


@dataclass(frozen=True, slots=True, kw_only=True)
class Controllers:
    """All that run in one server."""

    namespace_defaults: NamespaceDefaults

    async def stop(self) -> None:
        """End them; what they are in the middle of finishes."""
        await self.namespace_defaults.stop()


async def start_controllers(server: Server, *, ca_text: str) -> Controllers:
    """Make what must be there before the first request, and start the loops.

    ca_text     PEM of the CA that signs the server's certificate; "" without HTTPS
    """
    await create_system_namespaces(server)
    namespace_defaults = NamespaceDefaults(server, ca_text=ca_text)
    await namespace_defaults.start()
    return Controllers(namespace_defaults=namespace_defaults)
