"""`python -m tests.bench.webhooks`: what admission webhooks cost, in CPU time of the event loop.

Three servers take turns in one process: without webhooks, with 100 configurations that match other
resources, and with one webhook that matches. Each turn creates ConfigMaps in dry runs through the
internal client, so that neither the socket of the client nor the store hides a difference. The
webhook runs in a process of its own. In one more turn, each create on the first server is followed
by an exchange of as many bytes with the webhook over a bare TLS connection: the least that a call
can cost. Prints first quartiles and medians of the rounds, and the bytecode instructions of a
create on each server, which no other program disturbs.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from types import FrameType
from typing import Any, cast

import uvloop

from kapiserver.api.resource_client import Client
from kapiserver.api.types import Tree
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.serving.tls.credentials import ensure_certificates
from kapiserver.apiserver.user import APISERVER
from kapiserver.app import serve

CONFIGURATIONS = 100
ROUNDS, REQUESTS = 41, 50
COUNTED_TURNS, COUNTED = 20, 5
REVIEW_BYTES = 1000
CONFIG_MAP: Tree = {"metadata": {"name": "c"}, "data": {"k": "v"}}
REGISTRATION = "admissionregistration.k8s.io/v1"
KINDS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")


async def _serve_hook(certificate: str, key: str) -> None:
    """Allow every request, over connections that stay open. Prints the port."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
                review = json.loads(await reader.readexactly(length))
                response = {"uid": review["request"]["uid"], "allowed": True}
                body = json.dumps({**review, "request": None, "response": response}).encode()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=context)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def _configuration(name: str, resource: str, port: int, bundle: str) -> Tree:
    rule = {
        "operations": ["*"], "apiGroups": [""], "apiVersions": ["*"], "resources": [resource],
    }  # fmt: skip
    webhook = {
        "name": "hook.example.com",
        "clientConfig": {"url": f"https://127.0.0.1:{port}/admit", "caBundle": bundle},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    return {"metadata": {"name": name}, "webhooks": [webhook]}


async def start(stack: contextlib.AsyncExitStack) -> Client:
    """Start a server. Returns its internal client."""
    running = await stack.enter_async_context(serve(Config.of(secure_port=None, insecure_port=0)))
    return running.cluster.server.client(APISERVER, authorize=False)


class BareConnection(asyncio.Protocol):
    """Sends the same request again and again, and waits for a response each time. Parses
    nothing."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._received = b""
        self._response = asyncio.get_running_loop().create_future()
        body = json.dumps({"request": {"uid": "x" * 36, "padding": "x" * REVIEW_BYTES}}).encode()
        head = b"POST /admit HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n" % len(body)
        self._request = head + body

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if self._received.endswith(b"}"):
            self._response.set_result(None)

    async def exchange(self) -> None:
        """Send the request and wait for its response."""
        assert self._transport is not None
        self._received = b""
        self._response = asyncio.get_running_loop().create_future()
        self._transport.write(self._request)
        await self._response


async def _connect(port: int, bundle: str) -> BareConnection:
    context = ssl.create_default_context(cadata=base64.b64decode(bundle).decode())
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(
        BareConnection, "127.0.0.1", port, ssl=context, server_hostname="127.0.0.1"
    )
    return connection


async def turn(
    client: Client,
    requests: int = REQUESTS,
    *,
    then: Callable[[], Awaitable[None]] | None = None,
) -> float:
    """Create ConfigMaps, and do something else after each. Returns the microseconds of CPU time of
    one create."""
    config_maps = client.resource("v1", "configmaps", namespace="default")
    started = time.thread_time()
    for _ in range(requests):
        await config_maps.create(CONFIG_MAP, dryRun="All")
        if then is not None:
            await then()
    return (time.thread_time() - started) / requests * 1e6


async def count_instructions(client: Client) -> float:
    """Return the bytecode instructions of one create: the least of several turns, because other
    tasks of the event loop run in some."""
    count = 0

    def trace(frame: FrameType, event: str, _arg: object) -> Callable[..., Any]:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    counts = []
    for _ in range(COUNTED_TURNS):
        count = 0
        sys.settrace(trace)
        try:
            await turn(client, COUNTED)
        finally:
            sys.settrace(None)
        counts.append(count / COUNTED)
    return min(counts)


async def _measure(port: int, bundle: str) -> None:
    async with contextlib.AsyncExitStack() as stack:
        plain, crowded, matching = [await start(stack) for _ in range(3)]
        for index in range(CONFIGURATIONS):
            configuration = _configuration(f"hook-{index}", "secrets", port, bundle)
            await crowded.resource(REGISTRATION, KINDS[index % 2]).create(configuration)
        configuration = _configuration("hook", "configmaps", port, bundle)
        await matching.resource(REGISTRATION, KINDS[1]).create(configuration)
        bare = await _connect(port, bundle)
        clients = (plain, crowded, matching)
        for client in clients:
            await turn(client)
        counts = [await count_instructions(client) for client in clients]
        rounds = [
            [*[await turn(client) for client in clients], await turn(plain, then=bare.exchange)]
            for _ in range(ROUNDS + 1)
        ][1:]
    print("bytecode instructions of a create:", ", ".join(f"{count:.0f}" for count in counts))
    print("in us of CPU time, as first quartile and median of the rounds:")
    print("a create without webhooks:", _summary(each[0] for each in rounds))
    print("a call of a webhook:", _summary(each[2] - each[0] for each in rounds))
    print("a bare exchange after a create:", _summary(each[3] - each[0] for each in rounds))
    ratio = statistics.median(each[1] / each[0] for each in rounds)
    print(f"with {CONFIGURATIONS} configurations that do not match: {ratio:.3f} times the first")


def _summary(values: Iterable[float]) -> str:
    quartile, median, _ = statistics.quantiles(values, n=4)
    return f"{quartile:.0f} and {median:.0f}"


def main() -> None:
    """Run the benchmark, or the hook with the arguments CERTIFICATE and KEY."""
    if len(sys.argv) > 1:
        asyncio.run(_serve_hook(*sys.argv[1:3]))
        return
    with tempfile.TemporaryDirectory() as folder:
        credentials = ensure_certificates(Config(), Path(folder))
        pair = credentials.serving
        hook = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.webhooks", str(pair.certificate), str(pair.key)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert hook.stdout is not None
        bundle = base64.b64encode(credentials.ca.read_bytes()).decode()
        try:
            uvloop.run(_measure(int(hook.stdout.readline()), bundle))
        finally:
            hook.terminate()


if __name__ == "__main__":
    main()
