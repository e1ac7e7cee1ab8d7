"""A TCP relay between a client and a server, which can lose the server's responses."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import TracebackType


class Relay:
    """Passes bytes on in both directions, in an `async with` block.

    url     where clients connect
    """

    url: str

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._may_answer = asyncio.Event()
        self._may_answer.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._connections: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Relay:
        self._server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.close()
        self.cut()
        await asyncio.gather(*self._connections)

    def withhold(self) -> None:
        """Keep back what the server sends from now on."""
        self._may_answer.clear()

    def cut(self) -> None:
        """Close all connections, and drop what was kept back. New connections work."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()
        self._may_answer.set()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if (task := asyncio.current_task()) is not None:
            self._connections.add(task)
        server = await asyncio.open_connection("127.0.0.1", self._server_port)
        self._writers |= {writer, server[1]}
        with suppress(OSError):
            await asyncio.gather(_pass(reader, server[1]), self._pass_answers(server[0], writer))

    async def _pass_answers(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while data := await reader.read(1 << 16):
            await self._may_answer.wait()
            if writer not in self._writers:
                return
            writer.write(data)
            await writer.drain()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
