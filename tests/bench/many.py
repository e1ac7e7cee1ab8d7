"""A server over very many objects: what do a start, lists, a write and a watch cost?

    python -m tests.bench.many --storage postgresql --objects 1000000

Fills a store with ConfigMaps of 1 KB, by writes of the store's own interface, starts a server over
it and prints a line per step. Linux only (memory is read from /proc).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from kapiserver.storage.backends import open_store
from tests.bench.client import JSON, PROTOBUF, Connection, Target, connections
from tests.bench.measures import continue_token
from tests.bench.objects import configmap, ensure_namespace, path
from tests.bench.processes import Window, resident_mib
from tests.bench.servers import STORES, Store, server, store
from tests.bench.sizes import sizes_of

TEMPLATE = "o-0000000"
WRITERS = 256
PAGE = 500
FLAGS = ["--request-timeout", "10m"]
"""On a busy machine, the first page takes longer than a minute."""


def specification(below: Store, folder: Path) -> str:
    """Return `--storage` of a store."""
    if not below.flags:
        return f"sqlite:{folder / 'data' / 'kapiserver.db'}"
    return below.flags[1] if below.flags[0] == "--storage" else f"etcd:{below.flags[1]}"


async def create_template(target: Target) -> None:
    """Create the object that the others are copies of."""
    async with connections(target, 1) as (connection,):
        await ensure_namespace(connection)
        body: dict[str, Any] = configmap(TEMPLATE)
        body["metadata"]["labels"] = {"group": "0000000"}
        response = await connection.request("POST", path("configmaps"), body)
        assert response.status == 201, response


async def fill(storage: str, count: int) -> None:
    """Write copies of the template."""
    kv = await open_store(storage, root="/registry")
    prefix = "/registry/configmaps/bench/"
    item = (await kv.get(prefix + TEMPLATE)).item
    assert item is not None
    numbers = iter(range(1, count))

    async def write() -> None:
        for number in numbers:
            value = item.value.replace(TEMPLATE.encode(), b"o-%07d" % number)
            value = value.replace(b"0000000", b"%07d" % (number % 1000))
            await kv.create(f"{prefix}o-{number:07}", value)

    await asyncio.gather(*(write() for _ in range(WRITERS)))
    await kv.close()


async def measure(target: Target) -> None:
    """Read, write and watch, and print what each step costs."""
    async with connections(target, 1) as (connection,):
        await _step(target, "first page of 500", connection, f"?limit={PAGE}")
        first = await connection.request("GET", f"{path('configmaps')}?limit={PAGE}")
        token = continue_token(first, JSON)
        revision = json.loads(first.body)["metadata"]["resourceVersion"]
        await _step(target, "first page again", connection, f"?limit={PAGE}")
        await _step(target, "second page", connection, f"?limit={PAGE}&continue={token}")
        await _step(
            target, "a label that 1 of 1,000 has", connection, "?labelSelector=group=0000007"
        )
        await _step(target, "the same again", connection, "?labelSelector=group=0000007")
        await _step(target, "whole list, Protobuf", connection, "", accept=PROTOBUF)
        await _step(target, "GET of one", connection, "/o-0000007")
        await _step(target, "GET of one again", connection, "/o-0000007")
    await _watch(target, revision)


async def _watch(target: Target, revision: str) -> None:
    """Update an object and wait for its event."""
    async with connections(target, 2) as (connection, watching):
        await watching.start_watch(f"{path('configmaps')}?resourceVersion={revision}")
        for number in range(3):
            body = configmap(TEMPLATE)
            body["data"]["level"] = f"TS={time.time_ns()};"
            with Window(target.pids, target.store_pids) as window:
                response = await connection.request("PUT", path("configmaps", TEMPLATE), body)
                assert response.status == 200, response
                await watching.reader.readuntil(body["data"]["level"].encode())
            _print(target, f"PUT and its event, {number + 1}", window, 0)


async def _step(
    target: Target,
    name: str,
    connection: Connection,
    query: str,
    *,
    accept: str = JSON,
) -> None:
    with Window(target.pids, target.store_pids) as window:
        response = await connection.request("GET", path("configmaps") + query, accept=accept)
    assert response.status == 200, response.body[:300]
    _print(target, name, window, len(response.body))


def _print(target: Target, name: str, window: Window, size: int) -> None:
    figures = (
        f"{window.wall:.3f} s",
        f"{window.server:.3f} s",
        f"{window.store:.3f} s",
        f"{resident_mib(target.pids):,.0f} MiB",
        f"{size / 1e6:.1f} MB",
    )
    print(f"| {name} | {' | '.join(figures)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--storage", choices=STORES, default="postgresql")
    parser.add_argument("--objects", type=int, default=1_000_000)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as scratch,
        store(options.storage, Path(scratch)) as below,
    ):
        folder = Path(scratch)
        with server(folder, below, []) as (target, _):
            asyncio.run(create_template(target))
        with Window([], below.pids) as window:
            asyncio.run(fill(specification(below, folder), options.objects))
        print(f"{options.objects:,} objects written in {window.wall:.0f} s")
        print("| step | wall | CPU of the server | CPU of the store | memory | body |")
        print("| --- | --- | --- | --- | --- | --- |")
        with server(folder, below, FLAGS) as (target, started):
            print(
                f"| start | {started['wall s']:.2f} s | {started['server s']:.2f} s | | "
                f"{started['MiB']:.0f} MiB | |"
            )
            asyncio.run(measure(target))
            if options.storage != "etcd":
                print(asyncio.run(sizes_of(below, folder)()))
            print(f"store: {resident_mib(below.pids):,.0f} MiB")


if __name__ == "__main__":
    main()
