"""After SIGKILL of a writing process, the file contains every acknowledged write completely."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kapiserver.storage.kv.contract import Revision
from kapiserver.storage.sqlite.embedded_store import open_embedded
from tests.storage.invariants import check_file, check_store

WRITERS = 16
PROGRAM = '''
import asyncio, hashlib, os, sys
from pathlib import Path
from kapiserver.storage.sqlite.embedded_store import open_embedded

async def write(store, name):
    """Create, update ten times, delete; say so after each acknowledgement."""
    turn = 0
    while True:
        key = f"/{name}/{turn}"
        content = os.urandom(1000 + turn % 7000)
        value = hashlib.sha256(content).digest() + content
        revision = await store.create(key, value)
        os.write(1, f"put {key} {revision}\\n".encode())
        for _ in range(3):
            revision = await store.update(key, value, expected=revision)
            os.write(1, f"put {key} {revision}\\n".encode())
        if turn % 3 == 0:
            revision = await store.delete(key, expected=revision)
            os.write(1, f"del {key} {revision}\\n".encode())
        turn += 1

async def compact(store):
    while True:
        await asyncio.sleep(0.02)
        await store.compact(max(1, await store.current_revision() - 200))

async def main():
    store = await open_embedded(Path(sys.argv[1]))
    base = os.urandom(4).hex()
    os.write(1, b"ready\\n")
    writers = (write(store, f"{base}-{n}") for n in range(int(sys.argv[2])))
    await asyncio.gather(compact(store), *writers)

asyncio.run(main())
'''


def crash(path: Path, lines: int) -> dict[str, tuple[str, int]]:
    """Let a process write until it has acknowledged a number of operations, then kill it; return
    the last acknowledged operation of each key."""
    command = [sys.executable, "-c", PROGRAM, str(path), str(WRITERS)]
    acknowledged: dict[str, tuple[str, int]] = {}
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        for number, line in enumerate(process.stdout):
            if number == lines:
                os.kill(process.pid, signal.SIGKILL)
            operation, key, revision = line.decode().split()
            acknowledged[key] = (operation, int(revision))
    assert process.returncode == -signal.SIGKILL
    return acknowledged


async def verify(path: Path, acknowledged: dict[str, tuple[str, int]]) -> None:
    check_file(path)
    store = await open_embedded(path)
    newest = await store.current_revision()
    stored = {item.key: item for item in (await store.range("/")).items}
    for key, (operation, revision) in acknowledged.items():
        assert revision <= newest
        item = stored.get(key)
        if operation == "put" and item is not None:
            # One more write of this key may be durable without being acknowledged.
            assert item.revision >= revision
        elif operation == "put":
            assert (await store.get(key, revision=newest)).item is None
            assert int(key.rsplit("/", 1)[1]) % 3 == 0, f"{key} is lost"
            assert newest > revision
        else:
            assert item is None, f"{key} is back"
    for item in stored.values():
        assert sha256(item.value[32:]) == item.value[:32], f"{item.key} is torn"
    await check_store(store, Revision(newest - 100))
    await store.close()


def sha256(content: bytes) -> bytes:
    import hashlib

    return hashlib.sha256(content).digest()


@pytest.mark.parametrize("rounds", [4, pytest.param(40, marks=pytest.mark.slow)])
async def test_killed_while_writing(rounds: int, tmp_path: Path) -> None:
    """No acknowledged write is lost or torn after repeated kills of the writer of one file."""
    path, rng = tmp_path / "store.db", random.Random()
    acknowledged: dict[str, tuple[str, int]] = {}
    for _ in range(rounds):
        acknowledged |= crash(path, rng.randrange(1, 1500))
        await verify(path, acknowledged)
