"""A small HTTP/1.1 client for load tests: keep-alive connections on asyncio."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import orjson

from tests.bench.counters import Counter
from tests.bench.processes import Window

JSON = "application/json"
PROTOBUF = "application/vnd.kubernetes.protobuf"
Item = TypeVar("Item")
Channel = TypeVar("Channel")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The server under test.

    counter       counts instructions while a window is open
    requests      how many requests a window has; 0 for as many as its seconds allow
    connections   how many connections a window with a number of requests has at most
    """

    host: str
    port: int
    token: str
    ca_file: str
    pids: list[int]
    store_pids: list[int] = field(default_factory=list)
    counter: Counter | None = None
    requests: int = 0
    connections: int = 1

    @property
    def url(self) -> str:
        return f"https://{self.host}:{self.port}"

    def channels(self, count: int) -> int:
        """Return how many connections or streams a window has whose row has so many of them."""
        return min(count, self.connections) if self.requests else count

    def window(self) -> Window:
        """Return what measures the server and its store."""
        return Window(self.pids, self.store_pids, self.counter)

    def tls(self) -> ssl.SSLContext:
        """A client context that trusts the server's CA."""
        context = ssl.create_default_context(cafile=self.ca_file)
        context.set_alpn_protocols(["http/1.1"])
        return context


@dataclass(frozen=True, slots=True)
class Response:
    """One response, with the seconds until the first byte of its body."""

    status: int
    body: bytes


class Connection:
    """One keep-alive connection, with one request at a time.

    headers     more headers of the next requests
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self.headers: dict[str, str] = {}

    async def open(self, context: ssl.SSLContext) -> "Connection":
        self.reader, self.writer = await asyncio.open_connection(
            self.target.host, self.target.port, ssl=context, limit=1 << 22
        )
        return self

    async def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        accept: str = JSON,
        content_type: str = JSON,
    ) -> Response:
        """Send one request, with a JSON body if there is one, and read the response."""
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: {self.target.host}:{self.target.port}\r\n"
            f"User-Agent: bench\r\nAccept: {accept}\r\n"
            f"Authorization: Bearer {self.target.token}\r\n"
        )
        head += "".join([f"{name}: {value}\r\n" for name, value in self.headers.items()])
        data = b""
        if body is not None:
            data = body if isinstance(body, bytes) else orjson.dumps(body)
            head += f"Content-Type: {content_type}\r\nContent-Length: {len(data)}\r\n"
        self.writer.write(head.encode() + b"\r\n" + data)
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines[1:] if line)
        }
        if headers.get("transfer-encoding", "").lower() == "chunked":
            return Response(int(lines[0].split()[1]), await self._chunks())
        length = int(headers.get("content-length", "0"))
        return Response(int(lines[0].split()[1]), await self.reader.readexactly(length))

    async def start_watch(self, path: str) -> None:
        """Start a watch, whose events nobody reads: they stay in the buffers of the connection."""
        separator = "&" if "?" in path else "?"
        self.writer.write(
            (
                f"GET {path}{separator}watch=1 HTTP/1.1\r\nHost: {self.target.host}\r\n"
                f"Accept: {JSON}\r\nAuthorization: Bearer {self.target.token}\r\n\r\n"
            ).encode()
        )
        head = await self.reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head

    async def _chunks(self) -> bytes:
        chunks = []
        while size := int((await self.reader.readline()).split(b";")[0], 16):
            chunks.append(await self.reader.readexactly(size))
            await self.reader.readexactly(2)
        await self.reader.readline()
        return b"".join(chunks)

    def close(self) -> None:
        self.writer.close()


@asynccontextmanager
async def connections(target: Target, count: int) -> AsyncIterator[list[Connection]]:
    """A number of open connections."""
    context = target.tls()
    opened = await asyncio.gather(*[Connection(target).open(context) for _ in range(count)])
    try:
        yield list(opened)
    finally:
        for connection in opened:
            connection.close()


async def spread(
    over: Iterable[Channel],
    items: Iterable[Item],
    work: Callable[[Channel, Item], Awaitable[None]],
) -> None:
    """Run the work for every item, one at a time on each channel, which is mostly a connection."""
    queue = iter(items)

    async def run(channel: Channel) -> None:
        for item in queue:
            await work(channel, item)

    await asyncio.gather(*map(run, over))
