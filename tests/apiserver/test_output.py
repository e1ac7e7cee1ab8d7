"""The thread that writes standard output and standard error."""

from __future__ import annotations

import os

from kapiserver.apiserver.output import MAX_WAITING_BYTES, BackgroundWriter, write_all


def test_unread_pipe() -> None:
    """Nobody waits for a pipe that is full; what does not fit into the queue is dropped and
    counted, and the rest is written when the pipe is read."""
    reader, writer = os.pipe()
    output = BackgroundWriter(writer)
    line = "x" * (MAX_WAITING_BYTES // 4 - 1) + "\n"
    for _ in range(6):
        output.write(line)
    output.close(0)
    lines = os.fdopen(reader)
    assert [len(lines.readline()) for _ in range(4)] == [len(line)] * 4
    assert lines.readline() == "2 lines of output were dropped: nobody read them\n"
    output.close()
    os.close(writer)
    lines.close()


def test_non_blocking() -> None:
    """All bytes reach a pipe that another process has made non-blocking."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    pid = os.fork()
    if not pid:
        write_all(writer, b"x" * 200_000)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        assert len(pipe.read()) == 200_000
    assert os.waitpid(pid, 0)[1] == 0


def test_full_disk() -> None:
    """Output that cannot be written is lost, and the next output is tried."""
    descriptor = os.open("/dev/full", os.O_WRONLY)
    output = BackgroundWriter(descriptor)
    for _ in range(2):
        output.write("x")
        output.close()
    os.close(descriptor)
