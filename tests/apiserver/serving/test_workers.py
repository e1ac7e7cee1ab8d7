"""Messages between workers, which their supervisor forwards."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.serving.process.systemd import ServiceManager
from kapiserver.apiserver.serving.process.worker_channel import WorkerChannel
from kapiserver.apiserver.serving.process.workers import supervise

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="needs files in memory")

COUNT = 3
SEGMENT = b"what all workers have"
TIMEOUT_SECONDS = 60.0


class Worker:
    """A worker that writes down what it receives, in a folder."""

    def __init__(self, channel: WorkerChannel, folder: Path) -> None:
        self.channel = channel
        self.folder = folder

    def receive(self, descriptor: int) -> None:
        (self.folder / f"received-{os.getpid()}").write_bytes(os.pread(descriptor, 1000, 0))
        os.close(descriptor)

    def publish_for_others(self) -> None:
        segment = os.memfd_create("test")
        os.write(segment, SEGMENT)
        self.channel.announce(segment)
        os.close(segment)
        (self.folder / f"asked-{os.getpid()}").touch()


async def serve(channel: WorkerChannel, folder: Path) -> None:
    """Ask for segments, and end with the supervisor."""
    await channel.wait_all_ready()
    exited = asyncio.Event()
    worker = Worker(channel, folder)
    channel.listen(worker.receive, worker.publish_for_others, exited.set)
    if not channel.is_publisher:
        channel.ask()
    await exited.wait()


def main(folder: Path) -> None:
    """Run the workers."""
    config = Config.of(workers=COUNT, secure_port=None)

    def work(_: Config, channel: WorkerChannel) -> None:
        asyncio.run(serve(channel, folder))

    supervise(config, work, ServiceManager(), has_sockets=False)


def test_messages_between_workers(tmp_path: Path) -> None:
    """The first worker is asked for memory to share, all others get what it announces, and the
    supervisor keeps no descriptor."""
    process = subprocess.Popen([sys.executable, "-m", __spec__.name, str(tmp_path)])
    try:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while len(received := list(tmp_path.glob("received-*"))) < COUNT - 1:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        (asked,) = tmp_path.glob("asked-*")
        assert asked.name.replace("asked", "received") not in {file.name for file in received}
        assert {file.read_bytes() for file in received} == {SEGMENT}
        while has_segment(process.pid):
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        process.terminate()
        process.wait(TIMEOUT_SECONDS)


def has_segment(pid: int) -> bool:
    """Whether a process has a descriptor of a segment."""
    links = [os.path.realpath(link) for link in Path(f"/proc/{pid}/fd").iterdir()]
    return any("memfd:test" in link for link in links)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
