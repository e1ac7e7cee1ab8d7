"""What a controller is made with, and what it can do.

Mirrors ControllerContext of kube-controller-manager.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from kapiserver.apiserver.context import Server

if TYPE_CHECKING:
    from kapiserver.controllers.shared_metadata import SharedMetadata


class Controller(Protocol):
    """A control loop. It is started once and stopped once; a new one is made to run it again."""

    async def start(self) -> None:
        """Begin to watch; must not wait for the work itself."""

    async def stop(self) -> None:
        """End, cancelling what is in progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerContext:
    """What all controllers of a server share.

    metadata    owners, finalizers and deletion of every object
    ca_text     PEM of the CA that signs the server's certificate; "" without HTTPS
    """

    server: Server
    metadata: SharedMetadata
    ca_text: str = ""
