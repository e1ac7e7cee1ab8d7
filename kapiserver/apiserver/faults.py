"""The seam where a test makes requests fail: errors, delays, dropped connections.

Nothing is here unless `serve` is given faults. Knows no kind of fault.
"""

from __future__ import annotations

from typing import Protocol

from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse


class DropConnection(Exception):
    """Cut the client's connection without a response."""


class Faults(Protocol):
    """Called around every authorized request.

    Either method may wait, raise an error that becomes the response (`errors.py`), or raise
    DropConnection.
    """

    async def before(self, request: Request) -> None:
        """Called before the handler runs: nothing has been written."""

    async def after(self, request: Request, response: AnyResponse) -> None:
        """Called after the handler: a write is done, and the client does not know it yet."""
