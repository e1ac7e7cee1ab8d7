"""A program that plays a kubelet: `kubelet_program.py HOST CERT KEY CA`.

It prints its port, and then each request as a line of JSON. Clients show a certificate of the CA.
Commands are `echo TEXT`, `upper` (writes its input in capitals), `exit CODE` and `hang` (says
so, and waits for the end of its input); each port echoes, but for 81, which is refused.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
from typing import Any
from urllib.parse import parse_qs

from multidict import CIMultiDict

from kapiserver.apiserver.streaming.handshake import spdy_headers, spdy_protocol
from kapiserver.apiserver.streaming.remote_command import CommandStreams, exit_status
from kapiserver.apiserver.streaming.spdy_connection import SpdyConnection, SpdyStream
from kapiserver.apiserver.streaming.stream import copy, discard


class Client:
    """One connection. A byte stream."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def read(self) -> bytes:
        return await self.reader.read(1 << 16)

    async def write(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def respond(self, status: str, body: bytes) -> None:
        head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        await self.write(head.encode() + body)


async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    client = Client(reader, writer)
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        method, target, _ = head[0].split(" ")
        headers = [line.split(": ", 1) for line in head[1:] if line]
        subject = writer.get_extra_info("peercert")["subject"]
        print(json.dumps([method, target, headers, subject]), flush=True)
        path, _, query = target.partition("?")
        await answer(client, path, parse_qs(query), CIMultiDict(headers))
    except (ConnectionError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


async def answer(
    client: Client, path: str, query: dict[str, list[str]], headers: CIMultiDict[str]
) -> None:
    kind = path.split("/")[1]
    if kind == "containerLogs":
        await log(client, query)
    elif "broken" in path:
        await client.respond("500 Internal Server Error", b"the runtime is broken")
    else:
        protocol = spdy_protocol(headers, ("v4.channel.k8s.io", "portforward.k8s.io"))
        lines = [f"{name}: {text}" for name, text in spdy_headers(protocol)]
        lines = ["HTTP/1.1 101 Switching Protocols", *lines, "", ""]
        await client.write("\r\n".join(lines).encode())
        await (forward(client) if kind == "portForward" else execute(client, query))


async def log(client: Client, query: dict[str, list[str]]) -> None:
    if query.get("previous"):
        await client.respond("400 Bad Request", b"there is no previous container")
    elif query.get("limitBytes"):
        await client.respond("404 Not Found", b"no such container")
    elif not query.get("follow"):
        await client.respond("200 OK", b"one\ntwo\n")
    else:
        await client.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\none\n\r\n")
        await asyncio.sleep(0.2)
        await client.write(b"4\r\ntwo\n\r\n0\r\n\r\n")


async def execute(client: Client, query: dict[str, list[str]]) -> None:
    wanted = {"input": "stdin", "output": "stdout", "error": "stderr"}
    names = ["error", *(name for parameter, name in wanted.items() if parameter in query)]
    if "tty" in query:
        names.append("resize")
        names = [name for name in names if name != "stderr"]
    streams: dict[str, Any] = {}
    complete = asyncio.Event()

    def take(stream: SpdyStream) -> None:
        streams[stream.headers["streamtype"]] = stream
        if len(streams) == len(names):
            complete.set()

    connection = SpdyConnection(client, take)
    reading = asyncio.create_task(connection.run())
    await complete.wait()
    status = await run(CommandStreams(**streams), query.get("command") or ["attach"])
    await streams["error"].write(json.dumps(status).encode())
    for stream in streams.values():
        await stream.close()
    await asyncio.wait([reading], timeout=10)


async def run(streams: CommandStreams, command: list[str]) -> dict[str, Any]:
    match command:
        case ["echo", text]:
            await write(streams, text.encode())
        case ["size"]:
            assert streams.resize is not None
            await write(streams, await streams.resize.read())
        case ["upper"]:
            assert streams.stdin is not None
            while data := await streams.stdin.read():
                await write(streams, data.upper())
        case ["exit", code]:
            if streams.stderr is not None:
                await streams.stderr.write(b"failed\n")
            return exit_status(int(code))
        case ["hang"]:
            await write(streams, b"hanging\n")
            assert streams.stdin is not None
            await discard(streams.stdin)
        case _:
            await write(streams, b"attached\n")
    return exit_status(0)


async def write(streams: CommandStreams, data: bytes) -> None:
    assert streams.stdout is not None
    await streams.stdout.write(data)


async def forward(client: Client) -> None:
    tasks = set()

    def take(stream: SpdyStream) -> None:
        kind, port = stream.headers["streamtype"], stream.headers["port"]
        if kind == "error" and port == "81":
            tasks.add(asyncio.create_task(stream.write(b"connection refused")))
        if kind == "error" or port == "81":
            tasks.add(asyncio.create_task(stream.close()))
        else:
            tasks.add(asyncio.create_task(copy(stream, stream)))

    await SpdyConnection(client, take).run()


async def main(host: str, certificate: str, key: str, authority: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.load_verify_locations(authority)
    context.verify_mode = ssl.CERT_REQUIRED
    server = await asyncio.start_server(handle, host, 0, ssl=context)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
