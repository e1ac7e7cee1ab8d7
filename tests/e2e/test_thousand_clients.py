"""A thousand clients of one server process over a SQLite file, during backups and compactions."""

from __future__ import annotations

import asyncio
import collections
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kapiserver.storage.sqlite.database import WAL_LIMIT
from tests.e2e.programs import start, stop
from tests.storage.invariants import check_file

CLIENTS = 1000
PLACE = "/api/v1/namespaces/default/configmaps"


class Client:
    """A keep-alive connection without TLS; retries after a 429."""

    def __init__(self, port: int, statuses: collections.Counter[int]) -> None:
        self._port = port
        self._answers = statuses

    async def __aenter__(self) -> Client:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    async def request(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        data = b"" if body is None else json.dumps(body).encode()
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(data)}\r\n\r\n"
        )
        while True:
            self._writer.write(head.encode() + data)
            lines = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
            status = int(lines[0].split()[1])
            headers = dict(line.split(": ", 1) for line in lines[1:] if line)
            content = await self._reader.readexactly(int(headers["content-length"]))
            self._answers[status] += 1
            if status != 429:
                assert status in (200, 201), (method, path, status, content)
                obj: dict[str, Any] = json.loads(content)
                return obj
            await asyncio.sleep(0.1)


async def live(port: int, number: int, statuses: collections.Counter[int]) -> None:
    """Create, read, list, update and delete an object."""
    name = f"client-{number}"
    body = {"metadata": {"name": name, "labels": {"turn": "1"}}, "data": {"x": "x" * 1000}}
    async with Client(port, statuses) as client:
        await client.request("POST", PLACE, body)
        obj = await client.request("GET", f"{PLACE}/{name}")
        listing = await client.request("GET", f"{PLACE}?limit=10")
        assert len(listing["items"]) == 10 or number < 10
        for value in ("2", "3"):
            obj["metadata"]["labels"]["turn"] = value
            obj = await client.request("PUT", f"{PLACE}/{name}", obj)
        if number % 2:
            await client.request("DELETE", f"{PLACE}/{name}")


@pytest.mark.slow
def test_a_thousand_clients(tmp_path: Path) -> None:
    """1,000 concurrent clients write, read and delete during backups and compactions: all succeed,
    the write-ahead log stays bounded, and the file passes the check."""
    from tests.storage.etcd_server import free_port

    port = free_port()
    server = start(tmp_path, "--insecure-port", str(port), "--etcd-compaction-interval", "300ms")
    path = tmp_path / "data" / "kapiserver.db"
    statuses: collections.Counter[int] = collections.Counter()
    copies: list[Path] = []
    finished = asyncio.Event()

    async def copy() -> None:
        while not copies or not finished.is_set():
            copies.append(tmp_path / f"copy-{len(copies)}.db")
            command = ["storage", "backup", "--storage", f"sqlite:{path}", str(copies[-1])]
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "kapiserver.cli", *command,
                stdout=subprocess.DEVNULL,
            )  # fmt: skip
            assert await process.wait() == 0

    async def run() -> None:
        copying = asyncio.create_task(copy())
        try:
            async with asyncio.timeout(120):
                await asyncio.gather(*(live(port, number, statuses) for number in range(CLIENTS)))
            async with Client(port, statuses) as client:
                page = await client.request("GET", f"{PLACE}?limit=1")
                # kube-root-ca.crt
                assert page["metadata"]["remainingItemCount"] == CLIENTS // 2
        finally:
            finished.set()
            await copying

    try:
        asyncio.run(run())
        assert os.stat(f"{path}-wal").st_size <= WAL_LIMIT
    finally:
        stop(server)
    assert "locked" not in (tmp_path / "log").read_text()
    assert statuses[200] + statuses[201] == CLIENTS * 11 // 2 + 1
    for file in (path, copies[0]):
        check_file(file)
