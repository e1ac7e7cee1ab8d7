"""What simulated pods do on the machine of the server: read files, run programs, connect.

They may do so only with `--simulate-host-access`. Mirrors pkg/kwok/server of kwok.
"""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import AsyncGenerator, Sequence
from typing import BinaryIO

from kapiserver.api.types import Tree
from kapiserver.apiserver.byte_stream import MAX_UNREAD
from kapiserver.apiserver.errors import BadRequest
from kapiserver.apiserver.streaming.remote_command import CommandStreams, exit_status
from kapiserver.apiserver.streaming.stream import Stream
from kapiserver.simulation.streams.container_log import Line, selected, text_of, time_of

POLL_SECONDS = 0.2
"""How often a file that is followed is looked at."""
MAX_FILE_BYTES = 16 << 20
"""What is read of a log file: its end."""
CONNECT_SECONDS = 10.0

_NO_PROGRAM = 127


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


# Programs.


async def run_command(command: Sequence[str], local: Tree, streams: CommandStreams) -> Tree:
    """Run a command with the streams of a client, and return the Status of its end. A command that
    cannot be started ends with 127."""
    try:
        process = await _start(command, local, has_stdin=streams.stdin is not None)
    except (OSError, ValueError) as error:
        if streams.stderr is not None:
            await streams.stderr.write(f"{command[:1]}: {error}\n".encode())
        return exit_status(_NO_PROGRAM)
    assert process.stdout is not None
    assert process.stderr is not None
    outputs = asyncio.gather(
        _copy_out(process.stdout, streams.stdout),
        _copy_out(process.stderr, streams.stderr or streams.stdout),
    )
    feeding = asyncio.create_task(_feed(streams.stdin, process.stdin))
    try:
        await outputs
        code = await process.wait()
    finally:
        feeding.cancel()
        outputs.cancel()
        if process.returncode is None:
            process.kill()
    return exit_status(code if code >= 0 else 128 - code)


async def _start(
    command: Sequence[str], local: Tree, *, has_stdin: bool
) -> asyncio.subprocess.Process:
    """Start a program. Raises OSError, and ValueError for no command or one with a zero byte."""
    if not command:
        raise ValueError("no command")
    context = local.get("securityContext") or {}
    variables = {each["name"]: each.get("value") or "" for each in local.get("envs") or ()}
    return await asyncio.create_subprocess_exec(
        *command,
        cwd=local.get("workDir") or None,
        env=os.environ | variables,
        preexec_fn=functools.partial(_change_user, context) if context else None,
        stdin=asyncio.subprocess.PIPE if has_stdin else asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


def _change_user(context: Tree) -> None:
    """Give this process, which is about to run a program, another group and user. uvloop does not
    take them as arguments."""
    group, user = context.get("runAsGroup"), context.get("runAsUser")
    if group is not None:
        os.setgid(group)
    if user is not None:
        os.setuid(user)


async def _copy_out(source: asyncio.StreamReader, target: Stream | None) -> None:
    while data := await source.read(MAX_UNREAD):
        if target is not None:
            await target.write(data)


async def _feed(source: Stream | None, target: asyncio.StreamWriter | None) -> None:
    """Copy what a client sends, and its end."""
    if source is None or target is None:
        return
    try:
        while data := await source.read():
            target.write(data)
            await target.drain()
    except ConnectionError:
        pass  # the program reads no more
    target.close()


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
            await _copy_out(reader, stream)
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
