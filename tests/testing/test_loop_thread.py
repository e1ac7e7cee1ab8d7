"""The event loop of a thread closes the connections that are open when it closes."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import pytest

from kapiserver.exploring.running.operators.operator_loop import OperatorLoop
from kapiserver.testing.loop_thread import ThreadLoop


def _leave(transport: asyncio.Transport) -> None:
    """Leave the connection open, as a client does that is cancelled."""


def _close_unsent(transport: asyncio.Transport) -> None:
    """Close the connection while it has data that the other side does not read: as a TLS close,
    this waits for the other side."""
    transport.write(bytes(1 << 24))
    transport.close()


@pytest.mark.parametrize("end", [_leave, _close_unsent])
@pytest.mark.parametrize("kind", [ThreadLoop, OperatorLoop])
def test_connections_are_closed(
    kind: type[ThreadLoop], end: Callable[[asyncio.Transport], None]
) -> None:
    """No socket is left to the garbage collector."""
    loop = kind()
    ours, theirs = socket.socketpair()
    with theirs:
        connecting = loop.create_connection(asyncio.Protocol, sock=ours)
        transport, _ = loop.run_until_complete(connecting)
        end(transport)
        assert ours.fileno() != -1
        loop.close()
        assert ours.fileno() == -1
        assert transport.is_closing()
