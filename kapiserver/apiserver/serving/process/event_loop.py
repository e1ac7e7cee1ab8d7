"""Chooses the event loop that a server runs on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """Return what makes an event loop: of uvloop if it is installed, otherwise of asyncio."""
    try:
        import uvloop
    except ImportError:
        return asyncio.SelectorEventLoop  # the default one of Windows has no readers of sockets
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
