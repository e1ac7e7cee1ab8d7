"""The rules of csi-proxy's API document on serving: each test is named after a rule."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from examples.rpc.dummy import types
from examples.rpc.dummy.server import Server
from kapiserver.rpc.registration import Call
from tests.rpc.groups import connected, dummy, probe, served


class _RecordingServer(Server):
    """The example's implementation; records its instances and the versions called."""

    instances: ClassVar[list[_RecordingServer]] = []

    def __init__(self) -> None:
        super().__init__()
        self.versions: list[str] = []
        self.instances.append(self)

    async def compute_double(
        self, request: types.ComputeDoubleRequest, call: Call
    ) -> types.ComputeDoubleResponse:
        self.versions.append(call.version)
        return await super().compute_double(request, call)


def test_each_version_in_each_group_listens_on_an_endpoint_of_the_documents_form(
    tmp_path: Path,
) -> None:
    """`\\\\.\\pipe\\csi-proxy-<group>-<version>` is a socket `<project>-<group>-<version>.sock`."""

    async def run() -> None:
        groups = [dummy(), probe()]
        async with served(tmp_path, groups) as listening:
            names = {path.name for path in listening.sockets}
        expected = {
            f"{group.project}-{group.name}-{version.name}.sock"
            for group in groups
            for version in group.versions
        }
        discovery = {f"{group.project}-discovery-v1.sock" for group in groups}
        assert names == expected | discovery

    asyncio.run(run())


def test_there_is_only_one_server_per_group_that_handles_all_the_versions(tmp_path: Path) -> None:
    """The calls of all versions reach one instance, which is told the version."""

    async def run() -> None:
        group = replace(dummy(), server_class=_RecordingServer)
        v1, v1alpha1 = group.versions
        async with served(tmp_path, [group]) as listening:
            async with connected(listening.sockets[0], v1) as client:
                await client("ComputeDouble", input=1)
            async with connected(listening.sockets[1], v1alpha1) as client:
                await client("ComputeDouble", input32=1)

    _RecordingServer.instances.clear()
    asyncio.run(run())
    (server,) = _RecordingServer.instances
    assert server.versions == ["v1", "v1alpha1"]


def test_each_versions_requests_are_answered_with_each_versions_responses(tmp_path: Path) -> None:
    """One server gets internal requests, and each client gets messages of its own version."""

    async def run() -> None:
        group = dummy()
        v1, v1alpha1 = group.versions
        async with served(tmp_path, [group]) as listening:
            async with connected(listening.sockets[0], v1) as client:
                response = await client("ComputeDouble", input=21)
                assert isinstance(response, v1.methods[0].response)
                assert (response.response, response.overflow) == (42, False)
            async with connected(listening.sockets[1], v1alpha1) as client:
                old_response = await client("ComputeDouble", input32=21)
                assert isinstance(old_response, v1alpha1.methods[0].response)
                assert old_response.response32 == 42

    asyncio.run(run())
