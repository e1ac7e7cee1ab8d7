"""`make soak`: loads a server with 30 clients, kills it again and again, and judges the result.

In the first tenth of the time the server is killed with SIGKILL and started again. Then its
caches are filled. From a third of the time on, at the latest from minute 15 on, its memory may grow
by 10 % at most. After the end it is killed once more. The soak fails for a lost acknowledged write,
an unexpected response, and memory that grows.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import socket
import ssl
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.e2e.programs import Server, start
from tests.soak.clients import (
    CORE,
    MIX,
    Api,
    fill_event_ring,
    read_texts,
    repeat,
    store_texts,
)
from tests.soak.ledger import Ledger
from tests.soak.report import Report, measure

KILL_PHASE = 0.1
"""The share of the time in which the server is killed."""
PATIENCE_SECONDS = 60.0
"""How long a started server may take until it acknowledges a write."""
DEFINITIONS = 300
"""Custom resources that are defined to fill the rings of recent events."""
STORED_TEXTS = 80
"""Objects that are stored and listed to fill the cache of JSON texts, twice its size."""
FILLERS = 3
LEDGER = f"{CORE}/configmaps?labelSelector=soak%3Dledger"


class Soak:
    """One run."""

    def __init__(self, folder: Path, seconds: float, kills: int) -> None:
        self._folder = folder
        self._seconds = seconds
        self._kills = kills
        self._port = _free_port()
        self._ledger = Ledger()
        self.report = Report(seconds)
        self._started = time.monotonic()

    async def run(self) -> Report:
        """Run the soak and return its report."""
        server = await self._start()
        context = ssl.create_default_context(cafile=str(server.ca_file))
        context.load_cert_chain(server.client_cert, server.client_key)
        api = Api(server.url, context, self.report)
        api.up.set()
        self._started = time.monotonic()
        tasks = self._start_clients(api)
        try:
            server = await self._kill_repeatedly(api, server)
            tasks.append(asyncio.create_task(self._fill_caches(api)))
            await self._measure_until(server, self._seconds)
            await self._kill(api, server)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            server = await self._start()
            api.up.set()
            await self._check(api)
        finally:
            for task in tasks:
                task.cancel()
            await api.close()
            server.process.kill()
            server.process.wait()
        self.report.acknowledged = self._ledger.acknowledged
        return self.report

    async def _start(self) -> Server:
        return await asyncio.to_thread(start, self._folder, f"--secure-port={self._port}")

    def _start_clients(self, api: Api) -> list[asyncio.Task[None]]:
        clients = [client for client, count in MIX for _ in range(count)]
        return [
            asyncio.create_task(repeat(client, api, self._ledger, number))
            for number, client in enumerate(clients, 1)
        ]

    async def _kill_repeatedly(self, api: Api, server: Server) -> Server:
        interval = self._seconds * KILL_PHASE / max(self._kills, 1)
        for number in range(1, self._kills + 1):
            await self._measure_until(server, interval * number)
            await self._kill(api, server)
            server = await self._start()
            # The clients wait: what they do not know about their last writes stays unknown.
            api.up.set()
        return server

    async def _fill_caches(self, api: Api) -> None:
        """Fill the caches that the mix fills only in hours, so that what still grows is a leak."""

        async def fill(first: int) -> None:
            for number in range(first, DEFINITIONS, FILLERS):
                await fill_event_ring(api, number)
            for number in range(first, STORED_TEXTS, FILLERS):
                await store_texts(api, number)

        await asyncio.gather(*map(fill, range(FILLERS)))
        await read_texts(api)
        self.report.filled = self._elapsed()

    async def _kill(self, api: Api, server: Server) -> None:
        api.up.clear()
        server.process.kill()
        await asyncio.to_thread(server.process.wait)
        self.report.kills += 1

    async def _measure_until(self, server: Server, end: float) -> None:
        """Measure the server until a time, but until it has acknowledged a write at least."""
        wal = self._folder / "data" / "kapiserver.db-wal"
        acknowledged, latest = self._ledger.acknowledged, self._elapsed() + PATIENCE_SECONDS
        while (at := self._elapsed()) < end or (
            acknowledged == self._ledger.acknowledged and at < latest
        ):
            if server.process.poll() is not None:
                self.report.faults.append(f"the server ended with {server.process.returncode}")
                return
            self.report.samples.append(measure(at, server.process.pid, wal))
            await asyncio.sleep(min(1.0, max(end - at, 0.1)))

    def _elapsed(self) -> float:
        return time.monotonic() - self._started

    async def _check(self, api: Api) -> None:
        _, content = await api("list", "GET", LEDGER)
        items = json.loads(content)["items"]
        stored = {item["metadata"]["name"]: item["data"]["n"] for item in items}
        self.report.faults += [f"lost write: {line}" for line in self._ledger.lost(stored)]


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port: int = reserved.getsockname()[1]
    return port


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a soak, print its report and return the exit code."""
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=900, help="default: %(default)s")
    parser.add_argument("--kills", type=int, default=5, help="default: %(default)s")
    options = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="kapiserver-soak-"))
    report = asyncio.run(Soak(folder, options.seconds, options.kills).run())
    sys.stdout.write(report.text() + "\n")
    if report.verdict():
        sys.stdout.write(f"the server's log is {folder / 'log'}\n")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
