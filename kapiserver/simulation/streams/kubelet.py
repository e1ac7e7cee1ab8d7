"""The LocalKubelet that answers logs, exec, attach and port-forward of simulated pods.

Its answers come from the status and the annotations of the pod. It runs no program and opens no
connection, unless kwok's objects and `--simulate-host-access` allow it.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing

from kapiserver.api.accessors import (
    annotations_of,
    name_of,
    namespace_of,
    resource_version_of,
    uid_of,
)
from kapiserver.api.types import Tree
from kapiserver.apiserver.errors import Forbidden, InternalError, UnclassifiedError
from kapiserver.apiserver.streaming.local_kubelet import Forward, PodTarget
from kapiserver.apiserver.streaming.remote_command import (
    Command,
    CommandStreams,
    discard_input,
    exit_status,
)
from kapiserver.apiserver.streaming.stream import Stream, read_to_end
from kapiserver.simulation.annotations import STOPPED
from kapiserver.simulation.node_objects import internal_addresses, is_simulated
from kapiserver.simulation.streams.answers import NOT_FOUND, answers_of, find_answer, refusal
from kapiserver.simulation.streams.container_log import (
    container_status,
    find_run,
    lines_of,
    run_of,
    selected,
    text_of,
)
from kapiserver.simulation.streams.files import (
    MAX_BYTES,
    Files,
    FileSystems,
    Output,
    reads_archive,
    run_program,
)
from kapiserver.simulation.streams.host import connect, file_log, open_log
from kapiserver.simulation.streams.host_programs import run_command
from kapiserver.simulation.streams.host_rules import (
    ATTACH_RULE,
    EXEC_RULE,
    LOGS_RULE,
    PORT_FORWARD_RULE,
    HostRule,
)
from kapiserver.storage.concurrency.clock import Clock


class SimulatedKubelet:
    """The kubelet of all simulated nodes, as clients of their pods see it."""

    def __init__(self, clock: Clock, *, has_host_access: bool = False) -> None:
        """`has_host_access`: kwok's objects may let it use the files, programs and network of this
        machine."""
        self._clock = clock
        self._has_host_access = has_host_access
        self._file_systems = FileSystems()

    def serves(self, node: Tree) -> bool:
        """Report whether a node is simulated. Raises UnclassifiedError if its kubelet has been
        stopped."""
        if is_simulated(node) and annotations_of(node).get(STOPPED) == "true":
            address = next(iter(internal_addresses(node)), "")
            raise UnclassifiedError(f"dial tcp {address}:10250: connect: connection refused")
        return is_simulated(node)

    async def log(self, target: PodTarget, options: Tree) -> AsyncIterator[bytes]:
        """Return the log of a container. Raises BadRequest if it has none, Forbidden."""
        pod, container, now = target.pod, target.container, self._clock.now()
        run = run_of(pod, container, previous=bool(options.get("previous")))
        entry = await self._host_entry(LOGS_RULE, target, container)
        pieces: AsyncIterator[bytes]
        if entry is not None:
            file = entry.get("previousLogsFile" if options.get("previous") else "logsFile") or ""
            pieces = file_log(await open_log(file), options, now)
        elif options.get("follow") and run.end is None:
            pieces = _follow(target, options, now)
        else:
            pieces = _once(text_of(selected(lines_of(pod, container, run), options, now), options))
        return _limited(pieces, options.get("limitBytes"))

    async def exec(self, target: PodTarget, command: Sequence[str]) -> Command:
        """Return what gives the answer to a command, or runs it. Raises InternalError if the
        container does not run, Forbidden."""
        _check_running(target)
        answer = find_answer(answers_of(target.pod, target.container), command)
        if answer is None:
            entry = await self._host_entry(EXEC_RULE, target, target.container)
            if entry is not None:
                return functools.partial(run_command, tuple(command), entry.get("local") or {})
            if list(command) == ["cat"]:
                return _copy_input
            files = self._file_systems.of(uid_of(target.pod), target.container)
            return functools.partial(_run_program, files, target.container, tuple(command))
        output = Output(answer.stdout.encode(), answer.stderr, answer.exit_code)
        return functools.partial(_give, output)

    async def attach(self, target: PodTarget) -> Command:
        """Return what shows the lines that a container writes from now on. Raises InternalError if
        the container does not run, Forbidden."""
        _check_running(target)
        entry = await self._host_entry(ATTACH_RULE, target, target.container)
        options, now = {"tailLines": 0, "follow": True}, self._clock.now()
        if entry is not None:
            lines = file_log(await open_log(entry.get("logsFile") or ""), options, now)
        else:
            lines = _follow(target, options, now)

        async def run(streams: CommandStreams) -> Tree:
            unread = asyncio.create_task(discard_input(streams))
            try:
                async for piece in lines:
                    if streams.stdout is not None:
                        await streams.stdout.write(piece)
            finally:
                unread.cancel()
            return exit_status(0)

        return run

    async def port_forward(self, target: PodTarget) -> Forward:
        """Return what connects to what a PortForward names, and refuses other connections: no
        program listens in a simulated pod."""

        async def forward(port: int, stream: Stream) -> None:
            try:
                entry = await self._host_entry(PORT_FORWARD_RULE, target, port)
            except Forbidden as error:
                raise PermissionError(str(error)) from None
            if entry is None:
                pod = f"simulated pod {name_of(target.pod)}"
                raise ConnectionRefusedError(f"{pod} runs no program that listens on port {port}")
            await connect(entry, stream)

        return forward

    async def _host_entry(self, rule: HostRule, target: PodTarget, name: str | int) -> Tree | None:
        """Return the entry of kwok's objects for a container or port, or None. Raises Forbidden if
        this server may not obey it."""
        entry = await rule.entry(target, name)
        if entry is not None and not self._has_host_access:
            raise Forbidden(
                f"{rule.kind} of kwok uses the machine of the server, which needs "
                "--simulate-host-access"
            )
        return entry


def _check_running(target: PodTarget) -> None:
    status = container_status(target.pod, target.container) or {}
    if "running" not in (status.get("state") or ()):
        raise InternalError(f'container not found ("{target.container}")')


async def _copy_input(streams: CommandStreams) -> Tree:
    """Write what is read, as `cat` without arguments does."""
    if streams.stdin is not None and streams.stdout is not None:
        while piece := await streams.stdin.read():
            await streams.stdout.write(piece)
    return exit_status(0)


async def _run_program(
    files: Files, container: str, command: Sequence[str], streams: CommandStreams
) -> Tree:
    """Run a program that the container has, or say that it has no such program."""
    stdin = b""
    if streams.stdin is not None and reads_archive(command):
        stdin = await read_to_end(streams.stdin, MAX_BYTES)
    output = await asyncio.to_thread(run_program, files, command, stdin)
    if output is None:
        output = Output(stderr=refusal(container, command), exit_code=NOT_FOUND)
    return await _give(output, streams)


async def _give(output: Output, streams: CommandStreams) -> Tree:
    """Write what a command writes, and return the Status of its end."""
    for stream, data in (
        (streams.stdout, output.stdout),
        (streams.stderr or streams.stdout, output.stderr.encode()),
    ):
        if stream is not None and data:
            await stream.write(data)
    return exit_status(output.exit_code)


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def _limited(pieces: AsyncIterator[bytes], limit: int | None) -> AsyncIterator[bytes]:
    """Yield pieces up to a number of bytes."""
    async for piece in pieces:
        if limit is not None:
            piece = piece[:limit]
            limit -= len(piece)
        if piece:
            yield piece
        if limit == 0:
            return


async def _follow(target: PodTarget, options: Tree, now: float) -> AsyncGenerator[bytes, None]:
    """Yield the lines of the present run, and those that come, until the run ends."""
    run = run_of(target.pod, target.container)
    lines = lines_of(target.pod, target.container, run)
    yield text_of(selected(lines, options, now), options)
    async with aclosing(_versions(target)) as versions:
        async for version in versions:
            latest = find_run(version, target.container, run.identity)
            if latest is None:
                return
            known, lines = len(lines), lines_of(version, target.container, latest)
            yield text_of(lines[known:], options)
            if latest.end is not None:
                return


async def _versions(target: PodTarget) -> AsyncGenerator[Tree, None]:
    """Yield a pod after each change, until it is deleted."""
    selector = f"metadata.name={name_of(target.pod)}"
    version = resource_version_of(target.pod)
    pods = target.client.resource("v1", "pods", namespace=namespace_of(target.pod)).shared
    events = pods.watch(resource_version=version, fieldSelector=selector)
    async with aclosing(events):
        async for event in events:
            if event.type == "DELETED":
                return
            if event.type != "BOOKMARK":
                yield event.object
