"""Fault injection for tests: errors, delays and dropped connections around requests.

The parameter `faults` of `serve` turns it on. Knows no particular fault.
"""

from __future__ import annotations

from typing import Protocol

from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse


class DropConnection(Exception):
    """Makes the listener abort the client's connection without a response."""


class Faults(Protocol):
    """Called around every authorized request.

    Either method may wait, raise an error that becomes the response (`errors.py`), or raise
    DropConnection.
    """

    async def before(self, request: Request) -> AnyResponse | None:
        """Called before the handler, when nothing has been stored. Return a response to send it
        instead of calling the handler, else None."""

    async def after(self, request: Request, response: AnyResponse) -> None:
        """Called after the handler: a write is stored, and the client has no response yet."""
