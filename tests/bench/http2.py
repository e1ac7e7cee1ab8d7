"""Requests over HTTP/2: many streams of one connection, as client-go opens them.

`get` sends with a small client of its own, so that it takes little from the server; `by_client_go`
runs `tests/clients/go/http2load`, if Go is at hand, over HTTP/1.1 or HTTP/2. A server that does not
choose HTTP/2 has no figures.
"""

import asyncio
import functools
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from kapiserver.codecs.http2 import frames, hpack
from tests.bench.client import JSON, Target, connections
from tests.bench.measures import Figures, cost, load
from tests.bench.objects import configmap, path
from tests.clients.go_programs import GO
from tests.clients.toolchains import BUILDS, SUITES

_NAMESPACE = "default"
_OBJECTS = 500
"""The ConfigMaps that http2load reads."""
_OPERATIONS_PER_SECOND = 1000
_HEADER_BYTES = 9


class Connection:
    """One connection with GETs on many streams; the responses must have status 200."""

    async def open(self, target: Target) -> "Connection":
        context = target.tls()
        context.set_alpn_protocols(["h2", "http/1.1"])
        self._reader, self._writer = await asyncio.open_connection(
            target.host, target.port, ssl=context, limit=1 << 22
        )
        self._authority = f"{target.host}:{target.port}".encode()
        self._token = f"Bearer {target.token}".encode()
        self._next_stream = 1
        self._waiters: dict[int, asyncio.Future[None]] = {}
        self._headers = hpack.Decoder(list_bytes=1 << 16)
        self._reading: asyncio.Task[None] | None = None
        if self.is_http2:
            settings = frames.settings({frames.INITIAL_WINDOW_SIZE: frames.MAX_WINDOW})
            wide = frames.window_update(0, frames.MAX_WINDOW - frames.DEFAULT_WINDOW)
            self._writer.write(frames.PREFACE + settings + wide)
            self._reading = asyncio.create_task(self._read())
        return self

    @property
    def is_http2(self) -> bool:
        """Whether the server has chosen HTTP/2."""
        selected: str | None = self._writer.get_extra_info("ssl_object").selected_alpn_protocol()
        return selected == "h2"

    async def get(self, url: str) -> None:
        """Send a request on a stream of its own, and wait for the end of the response."""
        fields = [
            (b":method", b"GET"), (b":scheme", b"https"), (b":path", url.encode()),
            (b":authority", self._authority), (b"accept", JSON.encode()),
            (b"authorization", self._token), (b"user-agent", b"bench"),
        ]  # fmt: skip
        stream, self._next_stream = self._next_stream, self._next_stream + 2
        waiter = self._waiters[stream] = asyncio.get_running_loop().create_future()
        flags = frames.END_HEADERS | frames.END_STREAM
        self._writer.write(frames.frame(frames.HEADERS, flags, stream, hpack.encode(fields)))
        await waiter

    async def _read(self) -> None:
        try:
            while True:
                header = await self._reader.readexactly(_HEADER_BYTES)
                payload = await self._reader.readexactly(int.from_bytes(header[:3]))
                self._receive(header[3], header[4], int.from_bytes(header[5:]), payload)
        except asyncio.IncompleteReadError:
            for waiter in self._waiters.values():
                waiter.set_exception(ConnectionResetError())

    def _receive(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == frames.HEADERS:
            assert dict(self._headers.decode(payload)).get(b":status") == b"200"
        elif kind in (frames.SETTINGS, frames.PING) and not flags & frames.ACK:
            body = payload if kind == frames.PING else b""
            self._writer.write(frames.frame(kind, frames.ACK, 0, body))
        if kind in (frames.HEADERS, frames.DATA) and flags & frames.END_STREAM:
            self._waiters.pop(stream).set_result(None)

    def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
        self._writer.close()


async def get(target: Target, seconds: float, *, streams: int) -> Figures:
    """GET one object on so many streams of a connection at a time."""
    await _create_objects(target)
    connection = await Connection().open(target)
    try:
        if not connection.is_http2:
            return {}
        url = path("configmaps", "map-0", namespace=_NAMESPACE)
        return await load(target, seconds, [url] * target.channels(streams), connection.get)
    finally:
        connection.close()


async def by_client_go(
    target: Target, seconds: float, *, work: str, workers: int, protocol: str
) -> Figures:
    """Let client-go work in so many goroutines over `HTTP/1.1` or `HTTP/2.0`."""
    program = await asyncio.to_thread(_build)
    if program is None:
        return {}
    await _create_objects(target)
    count = target.requests or int(seconds * _OPERATIONS_PER_SECOND)
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"KUBECONFIG": str(_kubeconfig(target, Path(folder)))}
        if protocol == "HTTP/1.1":
            environment["DISABLE_HTTP2"] = "1"
        with target.window() as window:
            process = await asyncio.create_subprocess_exec(
                program, f"-work={work}", f"-count={count}", f"-workers={workers}",
                env=environment, stdout=subprocess.PIPE,
            )  # fmt: skip
            output, _ = await process.communicate()
    assert process.returncode == 0
    if output.decode().split()[-1] != protocol:
        return {}
    return {"per s": count / window.wall, **cost(target, window, "us", count)}


async def _create_objects(target: Target) -> None:
    async with connections(target, 1) as (connection,):
        url = path("configmaps", namespace=_NAMESPACE)
        last = await connection.request("GET", f"{url}/map-{_OBJECTS - 1}")
        for number in range(_OBJECTS if last.status == 404 else 0):
            created = await connection.request("POST", url, configmap(f"map-{number}"))
            assert created.status in (201, 409), created


@functools.cache
def _build() -> Path | None:
    """Build http2load; return None without Go."""
    if shutil.which("go") is None:
        return None
    folder = BUILDS / "go"
    shutil.copytree(SUITES / "go", folder, dirs_exist_ok=True)
    program = folder / "http2load" / "http2load"
    subprocess.run(
        ["go", "build", "-o", str(program), "./http2load"],
        cwd=folder, env=os.environ | GO, check=True,
    )  # fmt: skip
    return program


def _kubeconfig(target: Target, folder: Path) -> Path:
    """Write a kubeconfig, as JSON, which is YAML."""
    cluster = {"server": target.url, "certificate-authority": target.ca_file}
    context = {"cluster": "bench", "user": "bench"}
    file = folder / "kubeconfig"
    file.write_text(
        json.dumps(
            {
                "current-context": "bench",
                "clusters": [{"name": "bench", "cluster": cluster}],
                "users": [{"name": "bench", "user": {"token": target.token}}],
                "contexts": [{"name": "bench", "context": context}],
            }
        )
    )
    return file
