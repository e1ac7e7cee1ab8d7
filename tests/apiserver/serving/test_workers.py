"""Messages between workers, which their supervisor forwards."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen

import pytest

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.serving.process.silence import SILENT_SECONDS, Silence
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
    reports = asyncio.create_task(channel.report_life())
    await channel.wait_all_ready()
    if channel.is_first_worker:
        (folder / f"first-{os.getpid()}").touch()
    exited = asyncio.Event()
    worker = Worker(channel, folder)
    channel.listen(worker.receive, worker.publish_for_others, exited.set)
    if not channel.is_first_worker:
        channel.ask()
    await exited.wait()
    reports.cancel()


def main(folder: Path, silent_seconds: float) -> None:
    """Run the workers."""
    config = Config.of(workers=COUNT, secure_port=None)

    def work(_: Config, channel: WorkerChannel) -> None:
        asyncio.run(serve(channel, folder))

    supervise(config, work, ServiceManager(), has_sockets=False, silent_seconds=silent_seconds)


@contextmanager
def supervisor(folder: Path, silent_seconds: float = SILENT_SECONDS) -> Iterator[Popen[bytes]]:
    """The supervisor of workers until the block ends."""
    command = [sys.executable, "-m", __spec__.name, str(folder), str(silent_seconds)]
    process = subprocess.Popen(command)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(TIMEOUT_SECONDS)


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_messages_between_workers(tmp_path: Path) -> None:
    """The first worker is asked for memory to share, all others get what it announces, and the
    supervisor keeps no descriptor."""
    with supervisor(tmp_path) as process:
        wait_until(lambda: len([*tmp_path.glob("received-*")]) == COUNT - 1)
        received = [*tmp_path.glob("received-*")]
        (asked,) = tmp_path.glob("asked-*")
        assert asked.name.replace("asked", "received") not in {file.name for file in received}
        wait_until(lambda: {file.read_bytes() for file in received} == {SEGMENT})
        wait_until(lambda: not has_segment(process.pid))


def test_a_worker_that_hangs(tmp_path: Path) -> None:
    """A worker that is stopped is killed and started again."""
    with supervisor(tmp_path, silent_seconds=3.0):
        wait_until(lambda: len([*tmp_path.glob("first-*")]) == 1)
        (first,) = tmp_path.glob("first-*")
        pid = int(first.name.removeprefix("first-"))
        os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: len([*tmp_path.glob("first-*")]) > 1)
        assert not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize(
    ("looks", "hangs"),
    [
        ((0, 10, 30), False),  # exactly as long as the limit
        ((0, 10, 20, 31), True),
        ((0, 10, 26, 31), False),  # the supervisor did not run from 10 to 26
        ((0, 10, 26, 40, 50, 56), False),
        ((0, 10, 26, 40, 50, 57), True),
        ((500,), False),  # the first look
    ],
)
def test_silence(looks: Sequence[float], hangs: bool) -> None:
    """A worker hangs that was silent for more than 30 seconds in which the supervisor ran."""
    silence = Silence(30)
    for now in looks:
        silence.look(now)
    assert silence.is_too_long(0) is hangs
    assert not silence.is_too_long(looks[-1])


def has_segment(pid: int) -> bool:
    """Whether a process has a descriptor of a segment."""
    links = [os.path.realpath(link) for link in Path(f"/proc/{pid}/fd").iterdir()]
    return any("memfd:test" in link for link in links)


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
