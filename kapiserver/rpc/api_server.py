"""The groups of an API server: over HTTP, besides its own groups, and on sockets."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from kapiserver.apiserver.context import CallGroup, Server
from kapiserver.rpc.calls import GroupRunner, Limits
from kapiserver.rpc.groups.storage import server as storage
from kapiserver.rpc.groups.storage.registration_generated import GROUP as STORAGE
from kapiserver.rpc.http_calls import call_group
from kapiserver.rpc.loading import load_groups
from kapiserver.rpc.registration import Group
from kapiserver.rpc.serving import Addresses, Listening, check_extra, serve_rpc

STORAGE_LIMITS = Limits(calls=10, seconds=3600)
"""The limits of the group storage, whose calls read the whole store."""


class ServedGroups:
    """The groups that one API server serves.

    call_groups  the API groups of their calls over HTTP, one of the server's `Parts`
    """

    def __init__(
        self,
        folder: Path | None = None,
        *,
        with_storage: bool = False,
        socket_dir: Path | None = None,
    ) -> None:
        """Load the groups of a folder and, if `with_storage` is set, the group storage. Raises
        BadGroups, MissingExtra, ValueError."""
        if socket_dir is not None:
            check_extra()
        self._addresses = Addresses(socket_dir=socket_dir)
        self._groups = list(load_groups(folder)) if folder is not None else []
        if with_storage:
            self._groups.append(STORAGE)
        self._runners: dict[str, GroupRunner] = {}
        self.call_groups: Sequence[CallGroup] = [
            call_group(group, functools.partial(self._runner, group)) for group in self._groups
        ]

    def _runner(self, group: Group, server: Server) -> GroupRunner:
        runner = self._runners.get(group.name)
        if runner is None:
            runner = self._runners[group.name] = _make_runner(group, server)
        return runner

    @asynccontextmanager
    async def serve(self, server: Server) -> AsyncIterator[Listening]:
        """Serve the sockets of a server that runs, until the block ends. Raises SocketInUse,
        OSError, ValueError."""
        if self._addresses.socket_dir is None:
            yield Listening((), 0)
            return
        runners = [self._runner(group, server) for group in self._groups]
        grace = server.config.shutdown.shutdown_timeout
        async with serve_rpc(runners, self._addresses, grace=grace) as listening:
            yield listening


def _make_runner(group: Group, server: Server) -> GroupRunner:
    if group is STORAGE:
        group = replace(group, server_class=functools.partial(storage.Server, server))
        return GroupRunner(group, STORAGE_LIMITS, server.metrics.rpc)
    return GroupRunner(group, Limits(), server.metrics.rpc)
