"""The floor of a create: what HTTP and a write to the store cost alone, without Kubernetes.

    python -m tests.bench.floor [--storage etcd] [--rounds 5] [--seconds 2]

Three servers are loaded in turns with POSTs of one ConfigMap of 1 KB on 64 connections with TLS:

    http     the product's listener and connections; the handler answers at once
    write    the same, and the handler creates a key with the body in the store
    create   kapiserver

Prints the median over the rounds of requests per second and of the CPU microseconds of the server's
process for each request.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import itertools
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import orjson
import uvloop

from kapiserver.apiserver.config import BODY_LIMIT, Config
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import Response
from kapiserver.apiserver.serving.connection_limits import ConnectionLimits
from kapiserver.apiserver.serving.process.memory import manage_memory
from kapiserver.apiserver.serving.server import HttpServer
from kapiserver.apiserver.serving.tls.credentials import ensure_certificates
from kapiserver.apiserver.serving.tls.reload import ReloadingContext
from kapiserver.storage.backends import open_store
from kapiserver.storage.kv.contract import KV
from tests.bench import measures, servers
from tests.bench.client import Connection, Target
from tests.bench.measures import Figures
from tests.bench.objects import configmap

CONNECTIONS = 64


async def _serve(folder: Path, storage: str, *, writes: bool) -> None:
    manage_memory()
    config = Config.of(cert_dir=folder, storage=storage)
    certificates = ensure_certificates(config, folder)
    kv = await open_store(storage)
    handle = functools.partial(_write if writes else _answer, kv)
    http = HttpServer(handle, _fail, ConnectionLimits(), reuse_port=False)
    port = await http.listen_secure("127.0.0.1", 0, ReloadingContext(certificates))
    print(orjson.dumps({"port": port, "ca": str(certificates.ca)}).decode(), flush=True)
    await asyncio.Event().wait()


async def _answer(_kv: KV, request: Request) -> Response:
    return Response(status=201, body=await request.read_body(BODY_LIMIT))


async def _write(kv: KV, request: Request) -> Response:
    body = await request.read_body(BODY_LIMIT)
    await kv.create(f"/floor{request.path}", body)
    return Response(status=201, body=body)


def _fail(_request: Request, error: Exception) -> Response:
    raise error


@contextmanager
def _floor_server(folder: Path, below: servers.Store, *, writes: bool) -> Iterator[Target]:
    """A process that runs `_serve` until the block ends."""
    folder.mkdir()
    storage = f"etcd:{below.flags[1]}" if below.flags else f"sqlite:{folder / 'floor.db'}"
    command = [
        sys.executable, "-m", "tests.bench.floor", "--serve", str(folder), "--url", storage,
        *(["--writes"] if writes else []),
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=servers.ROOT)
    try:
        assert process.stdout is not None
        ready = orjson.loads(process.stdout.readline())
        yield Target(
            host="127.0.0.1", port=ready["port"], token=servers.TOKEN, ca_file=ready["ca"],
            pids=[process.pid], store_pids=below.pids,
        )  # fmt: skip
    finally:
        process.kill()
        process.wait(30)


async def _load(target: Target, seconds: float) -> Figures:
    """POST ConfigMaps with names of their own."""
    template = orjson.dumps(configmap("@NAME@"))
    numbers = itertools.count(time.time_ns())

    async def send(connection: Connection) -> None:
        name = b"c-%d" % next(numbers)
        body = template.replace(b"@NAME@", name)
        response = await connection.request("POST", f"/{name.decode()}", body)
        assert response.status == 201, response

    return await measures.loop(target, CONNECTIONS, seconds, send)


async def _measure(storage: str, rounds: int, seconds: float) -> None:
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        stores = [
            stack.enter_context(servers.store(storage, folder / f"store-{number}"))
            for number in range(3)
        ]
        http = stack.enter_context(_floor_server(folder / "http", stores[0], writes=False))
        write = stack.enter_context(_floor_server(folder / "write", stores[1], writes=True))
        create, _ = stack.enter_context(servers.server(folder / "create", stores[2], []))
        results: dict[str, list[Figures]] = {"http": [], "write": [], "create": []}
        for _ in range(rounds):
            results["http"].append(await _load(http, seconds))
            results["write"].append(await _load(write, seconds))
            results["create"].append(await measures.create(create, seconds, count=CONNECTIONS))
    print("| server | per s | server us | sum us |\n| --- | --- | --- | --- |")
    for title, figures in results.items():
        rate, server = (
            statistics.median(each[key] for each in figures) for key in ("per s", "server us")
        )
        total = statistics.median(each.get("sum us", each["server us"]) for each in figures)
        print(f"| {title} | {rate:.0f} | {server:.0f} | {total:.0f} |")


def main() -> None:
    """Measure, or serve in a process of its own."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.floor")
    parser.add_argument("--storage", choices=servers.STORES, default="etcd")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    parser.add_argument("--writes", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        uvloop.run(_serve(options.serve, options.url, writes=options.writes))
    else:
        asyncio.run(_measure(options.storage, options.rounds, options.seconds))


if __name__ == "__main__":
    main()
