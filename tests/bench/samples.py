"""Memory and file size of servers, second by second, while the rows of the bench load them."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.bench.client import Target
from tests.bench.processes import resident_mib
from tests.bench.report import Sample

SECONDS = 1.0
"""Time between two samples; every other one is dropped when there are MAX_SAMPLES."""
MAX_SAMPLES = 400


@contextlib.contextmanager
def sampling(servers: Mapping[str, tuple[Target, Path]]) -> Iterator[dict[str, list[Sample]]]:
    """Yield lists that grow while the block runs, keyed as the servers, each of which has a folder
    with the files of its store."""
    samples: dict[str, list[Sample]] = {name: [] for name in servers}
    over = threading.Event()
    begin = time.monotonic()

    def sample() -> None:
        pause = SECONDS
        while not over.wait(pause):
            for name, (target, folder) in servers.items():
                memory = resident_mib(target.pids)
                samples[name].append(
                    Sample(round(time.monotonic() - begin, 1), round(memory, 1), _size(folder))
                )
            if len(samples[name]) >= MAX_SAMPLES:
                pause *= 2
                for taken in samples.values():
                    del taken[1::2]

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield samples
    finally:
        over.set()
        thread.join()


def _size(folder: Path) -> float:
    """The MiB of the files of SQLite or etcd below a folder."""
    total = 0
    for file in (*folder.rglob("kapiserver.db*"), *folder.rglob("member/*/*")):
        with contextlib.suppress(OSError):  # SQLite and etcd remove files
            total += file.stat().st_size
    return round(total / (1 << 20), 2)
