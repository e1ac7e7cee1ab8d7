"""Programs that simulated pods run on the machine of the server.

They may do so only with `--simulate-host-access`. A command whose client asks for a terminal has
a pseudo-terminal. Mirrors pkg/kwok/server of kwok.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from kapiserver.api.types import Tree
from kapiserver.apiserver.byte_stream import MAX_UNREAD
from kapiserver.apiserver.streaming.remote_command import CommandStreams, exit_status
from kapiserver.apiserver.streaming.stream import Stream

if TYPE_CHECKING:  # not on every platform
    from kapiserver.simulation.streams.terminal import Terminal

_NO_PROGRAM = 127
_TERM = {"name": "TERM", "value": "xterm"}
"""The variable that container runtimes set for a program with a terminal."""
_LAST_SECONDS = 1.0
"""How long the output of a terminal is read whose program has ended: programs that it leaves behind
may keep the terminal open."""
_MAX_SIZE_BYTES = 1024
"""The longest message about the size of a terminal."""


async def run_command(command: Sequence[str], local: Tree, streams: CommandStreams) -> Tree:
    """Run a command with the streams of a client, and return the Status of its end. A command that
    cannot be started ends with 127."""
    try:
        if streams.resize is not None:
            return exit_status(await _run_in_terminal(command, local, streams))
        return exit_status(await _run_with_pipes(command, local, streams))
    except (OSError, ValueError) as error:
        output = streams.stderr or streams.stdout
        if output is not None:
            await output.write(f"{command[:1]}: {error}\n".encode())
        return exit_status(_NO_PROGRAM)


async def _run_with_pipes(command: Sequence[str], local: Tree, streams: CommandStreams) -> int:
    """Return the exit code of a command. Raises OSError, ValueError."""
    pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    process = await _start(
        command, local, stdin=nothing if streams.stdin is None else pipe, stdout=pipe, stderr=pipe
    )
    assert process.stdout is not None
    assert process.stderr is not None
    outputs = asyncio.gather(
        copy_out(process.stdout, streams.stdout),
        copy_out(process.stderr, streams.stderr or streams.stdout),
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
    return _exit_code(code)


async def _run_in_terminal(command: Sequence[str], local: Tree, streams: CommandStreams) -> int:
    """Return the exit code of a command that has a terminal. Raises OSError, ValueError."""
    from kapiserver.simulation.streams.terminal import Terminal  # not on every platform

    local = local | {"envs": [_TERM, *(local.get("envs") or ())]}
    terminal = Terminal()
    end = terminal.program_end
    try:
        process = await _start(
            command, local, terminal.take_control, stdin=end, stdout=end, stderr=end
        )
    except BaseException:
        terminal.close()
        raise
    finally:
        terminal.close_program_end()
    output = asyncio.create_task(copy_out(terminal, streams.stdout))
    inputs = asyncio.gather(_type(streams.stdin, terminal), _resize(streams.resize, terminal))
    try:
        code = await process.wait()
        await asyncio.wait([output], timeout=_LAST_SECONDS)
    finally:
        tasks = (inputs, output)
        for task in tasks:
            task.cancel()
        if process.returncode is None:
            process.kill()
        await asyncio.gather(*tasks, return_exceptions=True)
        terminal.close()
    return _exit_code(code)


async def _type(source: Stream | None, terminal: Terminal) -> None:
    """Copy what a client sends to the program, and its end."""
    with contextlib.suppress(OSError):  # the program has ended
        while source is not None and (data := await source.read()):
            await terminal.write(data)
        if source is not None:
            await terminal.end_input()


async def _resize(source: Stream | None, terminal: Terminal) -> None:
    """Set each size that a client sends: a line of JSON with Width and Height. Others have no
    effect."""
    text = b""
    while source is not None and (data := await source.read()):
        *lines, text = (text + data).split(b"\n")
        for line in lines:
            with contextlib.suppress(msgspec.MsgspecError, OSError):
                size = msgspec.json.decode(line, type=_TerminalSize)
                terminal.resize(size.Width, size.Height)
        text = text[-_MAX_SIZE_BYTES:]


class _TerminalSize(msgspec.Struct):
    """The size of a terminal in characters (client-go's remotecommand.TerminalSize)."""

    Width: int
    Height: int


def _exit_code(code: int) -> int:
    """Return the exit code that a shell shows for a program, which a signal may have ended."""
    return code if code >= 0 else 128 - code


async def _start(
    command: Sequence[str],
    local: Tree,
    prepare: Callable[[], None] | None = None,
    *,
    stdin: int,
    stdout: int,
    stderr: int,
) -> asyncio.subprocess.Process:
    """Start a program; its process calls `prepare` before. Raises OSError, and ValueError for no
    command or one with a zero byte."""
    if not command:
        raise ValueError("no command")
    variables = {
        variable["name"]: variable.get("value") or "" for variable in local.get("envs") or ()
    }
    context = local.get("securityContext") or {}
    return await asyncio.create_subprocess_exec(
        *command,
        cwd=local.get("workDir") or None,
        env=os.environ | variables,
        preexec_fn=functools.partial(_prepare, prepare, context) if prepare or context else None,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
    )


def _prepare(prepare: Callable[[], None] | None, context: Tree) -> None:
    """Prepare this process, which is about to run a program, and give it another group and user.
    uvloop does not take them as arguments."""
    if prepare is not None:
        prepare()
    group, user = context.get("runAsGroup"), context.get("runAsUser")
    if group is not None:
        os.setgid(group)
    if user is not None:
        os.setuid(user)


async def copy_out(source: asyncio.StreamReader | Terminal, target: Stream | None) -> None:
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
