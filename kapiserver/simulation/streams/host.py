"""What simulated pods do on the machine of the server: read files and connect.

They may do so only with `--simulate-host-access`. Mirrors pkg/kwok/server of kwok.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from typing import BinaryIO

from kapiserver.api.types import Tree
from kapiserver.apiserver.errors import BadRequest
from kapiserver.apiserver.streaming.remote_command import CommandStreams
from kapiserver.apiserver.streaming.stream import Stream
from kapiserver.simulation.streams.container_log import Line, selected, text_of, time_of
from kapiserver.simulation.streams.host_programs import copy_out, run_command

POLL_SECONDS = 0.2
"""How often a file that is followed is looked at."""
MAX_FILE_BYTES = 16 << 20
"""What is read of a log file: its end."""
CONNECT_SECONDS = 10.0


# Files.


async def open_log(path: str) -> BinaryIO:
    """Return a log file, at the beginning of its last bytes. Raises BadRequest."""
    try:
        return await asyncio.to_thread(_open, path)
    except (OSError, ValueError) as error:
        raise BadRequest(f"failed to open log file {path!r}: {error}") from None


def _open(path: str) -> BinaryIO:
    file = open(path, "rb")  # noqa: SIM115 # `file_log` closes it
    size = os.fstat(file.fileno()).st_size
    file.seek(max(size - MAX_FILE_BYTES, 0))
    return file


async def file_log(file: BinaryIO, options: Tree, now: float) -> AsyncGenerator[bytes, None]:
    """Yield the lines of a log file that a PodLogOptions asks for; with `follow` those that come,
    too. A line without a time has the time `now`."""
    with file:
        is_followed = bool(options.get("follow"))
        data = await asyncio.to_thread(file.read, MAX_FILE_BYTES)
        lines, rest = _lines(data, now, keep_rest=is_followed)
        yield text_of(selected(lines, options, now), options)
        while is_followed:
            await asyncio.sleep(POLL_SECONDS)
            data = rest + await asyncio.to_thread(file.read, MAX_FILE_BYTES)
            lines, rest = _lines(data, now, keep_rest=len(data) < MAX_FILE_BYTES)
            if lines:
                yield text_of(selected(lines, _without_tail(options), now), options)


def _without_tail(options: Tree) -> Tree:
    return {name: value for name, value in options.items() if name != "tailLines"}


def _lines(data: bytes, now: float, *, keep_rest: bool) -> tuple[list[Line], bytes]:
    """Return the lines of a file, and what follows the last whole one."""
    *whole, rest = data.split(b"\n")
    if rest and not keep_rest:
        whole, rest = [*whole, rest], b""
    return [_line(text.decode("utf-8", "replace"), now) for text in whole], rest


def _line(text: str, now: float) -> Line:
    """Return a line in the format of container runtimes: time, stream, tag and text. A line in no
    such format is taken as it is."""
    begin, _, rest = text.partition(" ")
    time = time_of(begin)
    stream, _, rest = rest.partition(" ")
    if time is None or stream not in ("stdout", "stderr"):
        return Line(now, text)
    return Line(time, rest.partition(" ")[2], stream)


# Ports.


async def connect(entry: Tree, stream: Stream) -> None:
    """Connect a stream with a command or an address. Raises OSError."""
    command, target = entry.get("command"), entry.get("target")
    if command:
        await run_command(command, {}, CommandStreams(stdin=stream, stdout=stream, error=stream))
    elif target:
        async with asyncio.timeout(CONNECT_SECONDS):
            reader, writer = await asyncio.open_connection(target["address"], target["port"])
        try:
            feeding = asyncio.create_task(_feed_socket(stream, writer))
            await copy_out(reader, stream)
            feeding.cancel()
        finally:
            writer.close()
    else:
        raise OSError("no target or command")


async def _feed_socket(source: Stream, target: asyncio.StreamWriter) -> None:
    """Copy what a client sends, and then close only this direction."""
    while data := await source.read():
        target.write(data)
        await target.drain()
    target.write_eof()
