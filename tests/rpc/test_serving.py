"""Groups on real sockets, called by real gRPC clients."""

from __future__ import annotations

import asyncio
import logging
import socket
from pathlib import Path

import grpc
import pytest
from google.protobuf import wrappers_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

from kapiserver.rpc.calls import _LOGGED_WARNINGS, Limits
from kapiserver.rpc.groups.discovery.v1 import api_pb2
from kapiserver.rpc.groups.discovery.v1.client_generated import DiscoveryClient
from tests.rpc.groups import Probe, connected, dummy, probe, probe_client, renamed, served


async def _error(call) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await call
    return raised.value


def test_both_versions_of_the_document(tmp_path: Path) -> None:
    """Each version has a socket, one server answers both, and a response that does not fit is
    OUT_OF_RANGE with the path of its field."""

    async def run() -> None:
        group = dummy()
        v1, v1alpha1 = group.versions
        async with served(tmp_path, [group]) as listening:
            names = [path.name for path in listening.sockets]
            assert names == [
                "rpc-dummy-v1.sock", "rpc-dummy-v1alpha1.sock", "rpc-discovery-v1.sock",
            ]  # fmt: skip
            async with connected(listening.sockets[0], v1) as client:
                assert (await client("ComputeDouble", input=2**40)).response == 2**41
                assert (await client("ComputeDouble", input=2**62)).overflow
            async with connected(listening.sockets[1], v1alpha1) as client:
                assert (await client("ComputeDouble", input32=-4)).response32 == -8
                error = await _error(client("ComputeDouble", input32=2**30))
        assert error.code() is grpc.StatusCode.OUT_OF_RANGE
        assert error.details() == "response32: 2147483648 does not fit into int32"

    asyncio.run(run())


def test_a_version_is_not_served_on_the_socket_of_another(tmp_path: Path) -> None:
    async def run() -> None:
        _, v1alpha1 = dummy().versions
        async with (
            served(tmp_path, [dummy()]) as listening,
            connected(listening.sockets[0], v1alpha1) as client,
        ):
            error = await _error(client("ComputeDouble", input32=1))
        assert error.code() is grpc.StatusCode.UNIMPLEMENTED

    asyncio.run(run())


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("RPCError", grpc.StatusCode.NOT_FOUND, "there is none"),
        ("bad code", grpc.StatusCode.INTERNAL, "?"),
        ("timeout", grpc.StatusCode.DEADLINE_EXCEEDED,
         "the call did not complete within its deadline"),
        ("unexpected", grpc.StatusCode.INTERNAL,
         "internal error; the log of the server has the reason"),
    ],
)  # fmt: skip
def test_errors(tmp_path: Path, caplog, text: str, code: grpc.StatusCode, message: str) -> None:
    """Errors have codes of gRPC; an unexpected one is logged and not shown."""

    async def run() -> grpc.aio.AioRpcError:
        async with probe_client(tmp_path) as client:
            return await _error(client("Fail", text=text))

    error = asyncio.run(run())
    assert (error.code(), error.details()) == (code, message)
    assert ("ValueError: secret" in caplog.text) == (text == "unexpected")


def test_details_of_errors(tmp_path: Path) -> None:
    """The details of an RPCError are in google.rpc.Status."""

    async def run() -> grpc.aio.AioRpcError:
        async with probe_client(tmp_path) as client:
            return await _error(client("Fail", text="RPCError"))

    encoded = dict(asyncio.run(run()).trailing_metadata())["grpc-status-details-bin"]
    detail = wrappers_pb2.StringValue(value="detail").SerializeToString()
    assert encoded.startswith(b"\x08\x05\x12\x0dthere is none\x1a")
    assert encoded.endswith(b"type.googleapis.com/google.protobuf.StringValue\x12\x08" + detail)


def test_calls_without_implementation_and_malformed_requests(tmp_path: Path) -> None:
    async def run() -> None:
        async with probe_client(tmp_path) as client:
            error = await _error(client("Missing"))
            assert error.code() is grpc.StatusCode.UNIMPLEMENTED
            raw = client._channel.unary_unary("/probe.v1.Probe/Echo")
            error = await _error(raw(b"\xff\xff", timeout=20))
            assert error.code() is grpc.StatusCode.INVALID_ARGUMENT

    asyncio.run(run())


def test_streams(tmp_path: Path) -> None:
    """All four kinds of calls, with async and with plain implementations."""

    async def run() -> None:
        async with probe_client(tmp_path) as client:
            numbers = [each.number async for each in client("Count", number=3)]
            assert numbers == [0, 1, 2]
            numbers = [each.number async for each in client("CountInThread", number=3)]
            assert numbers == [0, 1, 2]
            requests = [client.request("Sum", number=number) for number in (1, 2, 3)]
            assert (await client.call("Sum")(iter(requests), timeout=20)).number == 6
            doubled = client.call("Double")(iter(requests), timeout=20)
            assert [each.number async for each in doubled] == [2, 4, 6]
            assert (await client("Block", text="x")).text == "x in a thread"
            stream = client("Count", number=1, text="enough")
            assert (await stream.read()).number == 0
            error = await _error(stream.read())
            assert (error.code(), error.details()) == (grpc.StatusCode.ABORTED, "enough")

    asyncio.run(run())


def test_the_implementation_knows_the_call(tmp_path: Path) -> None:
    """Version, user, deadline and metadata."""

    async def run() -> None:
        implementation = Probe()
        async with probe_client(tmp_path, implementation) as client:
            now = asyncio.get_running_loop().time()
            request = client.request("Echo")
            await client.call("Echo")(request, timeout=50, metadata=(("node", "n1"),))
            await client.call("Echo")(request)
        first, second = implementation.calls
        assert (first.version, first.method) == ("v1", "Echo")
        assert first.user is not None
        assert (first.user.name, "system:masters" in first.user.groups) == (
            "kubernetes-admin",
            True,
        )
        assert first.deadline is not None
        assert now + 30 < first.deadline < now + 60
        assert first.metadata["node"] == "n1"
        assert second.deadline is None

    asyncio.run(run())


def test_deadlines_and_cancellation(tmp_path: Path) -> None:
    """A call ends at the client's deadline, at the server's bound, and when the client leaves."""

    async def run() -> None:
        implementation = Probe()
        async with probe_client(tmp_path / "a", implementation) as client:
            seconds = 0.1
            while not implementation.entered.is_set():  # on a busy machine the call may come late
                seconds *= 2
                error = await _error(client("Wait", timeout=seconds))
                assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
            await asyncio.wait_for(implementation.cancelled.wait(), 20)
            implementation.cancelled.clear()
            implementation.entered.clear()
            call = client("Wait", timeout=None)
            await asyncio.wait_for(implementation.entered.wait(), 20)
            call.cancel()
            await asyncio.wait_for(implementation.cancelled.wait(), 20)
        async with probe_client(tmp_path / "b", limits=Limits(seconds=0.1)) as client:
            error = await _error(client("Wait", timeout=None))
            assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED

    asyncio.run(run())


def test_overload(tmp_path: Path) -> None:
    """More calls than the limit get RESOURCE_EXHAUSTED, and health still answers."""

    async def run() -> None:
        implementation = Probe()
        limits = Limits(calls=1)
        async with probe_client(tmp_path, implementation, limits=limits) as client:
            waiting = client("Wait")
            await asyncio.wait_for(implementation.entered.wait(), 20)
            error = await _error(client("Echo"))
            assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert error.details() == "the group probe runs 1 calls, its limit; try again later"
            stub = health_pb2_grpc.HealthStub(client._channel)
            await stub.Check(health_pb2.HealthCheckRequest(), timeout=20)
            implementation.release.set()
            assert (await waiting).text == "waited"
            assert (await client("Echo", text="again")).text == "again"

    asyncio.run(run())


def test_threads_that_never_return(tmp_path: Path) -> None:
    """A function that goes on after its client has left counts as a call. It keeps neither the
    server nor the process from ending: this test would hang."""

    async def run() -> None:
        implementation = Probe()
        limits = Limits(calls=1, seconds=0.1)
        async with probe_client(tmp_path, implementation, limits=limits) as client:
            while not implementation.blocked.is_set():  # the thread may start after the limit
                error = await _error(client("Block", number=1))
                assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
            error = await _error(client("Echo"))
            assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED

    asyncio.run(run())


def test_large_messages(tmp_path: Path) -> None:
    """Requests and responses have a bound."""

    async def run() -> None:
        async with probe_client(tmp_path, limits=Limits(message_bytes=1000)) as client:
            assert (await client("Echo", text="x" * 900)).text == "x" * 900
            error = await _error(client("Echo", text="x" * 2000))
            assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            error = await _error(client("Block", text="x" * 990))
            assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert error.details() == "the response has 1005 bytes, at most 1000 are sent"

    asyncio.run(run())


def test_deprecations(tmp_path: Path, caplog) -> None:
    """A deprecated version, call or field warns in trailing metadata, and in the log once."""
    _LOGGED_WARNINGS.clear()
    caplog.set_level(logging.WARNING)

    async def warnings(client, **fields: object) -> list[str]:
        call = client("Echo", **fields)
        await call
        return [value for key, value in await call.trailing_metadata() if key == "warning"]

    async def run() -> None:
        field = "probe.v1.ProbeRequest.old is deprecated"
        async with probe_client(tmp_path / "a") as client:
            assert await warnings(client, text="x") == []
            assert await warnings(client, old=True) == [field]
        async with probe_client(tmp_path / "b", deprecated=True) as client:
            names = ["probe.v1.Probe is deprecated", "probe.v1.Probe/Echo is deprecated"]
            assert await warnings(client, old=True) == [*names, field]
            assert await warnings(client) == names

    asyncio.run(run())
    assert caplog.text.count("probe.v1.Probe is deprecated") == 1
    assert caplog.text.count("probe.v1.ProbeRequest.old is deprecated") == 1


def test_health_and_reflection(tmp_path: Path) -> None:
    """Every socket has the services health and reflection, as grpcurl uses them."""

    async def run() -> Path:
        async with served(tmp_path, [dummy()]) as listening:
            async with grpc.aio.insecure_channel(f"unix:{listening.sockets[0]}") as channel:
                stub = health_pb2_grpc.HealthStub(channel)
                for name in ("", "v1.Dummy"):
                    request = health_pb2.HealthCheckRequest(service=name)
                    answer = await stub.Check(request, timeout=20)
                    assert answer.status == health_pb2.HealthCheckResponse.SERVING
            await asyncio.to_thread(reflect, listening.sockets[0])
        return listening.sockets[0]

    def reflect(path: Path) -> None:
        with grpc.insecure_channel(f"unix:{path}") as channel:
            database = ProtoReflectionDescriptorDatabase(channel)
            assert set(database.get_services()) == {
                "grpc.health.v1.Health",
                "grpc.reflection.v1alpha.ServerReflection",
                "v1.Dummy",
            }
            file = database.FindFileContainingSymbol("v1.Dummy")
            assert [method.name for method in file.service[0].method] == ["ComputeDouble"]
            database.FindFileContainingSymbol("grpc.health.v1.Health")

    asyncio.run(run())


def test_graceful_stop(tmp_path: Path) -> None:
    """A running call finishes within the bound, and the socket goes at once; a longer call is
    cancelled."""

    async def run() -> None:
        implementation = Probe()
        group = probe(lambda: implementation)
        manager = served(tmp_path, [group], grace=20)
        listening = await manager.__aenter__()
        async with connected(listening.sockets[0], group.versions[0]) as client:
            call = client("Wait")
            await asyncio.wait_for(implementation.entered.wait(), 20)
            stopping = asyncio.create_task(manager.__aexit__(None, None, None))
            while listening.sockets[0].exists():  # noqa: ASYNC110 - it has no event
                await asyncio.sleep(0)
            implementation.release.set()
            assert (await call).text == "waited"
            await stopping
        implementation = Probe()
        manager = served(tmp_path, [probe(lambda: implementation)], grace=0)
        listening = await manager.__aenter__()
        async with connected(listening.sockets[0], group.versions[0]) as client:
            call = client("Wait")
            await asyncio.wait_for(implementation.entered.wait(), 20)
            await manager.__aexit__(None, None, None)
            error = await _error(call)
        assert error.code() in (grpc.StatusCode.CANCELLED, grpc.StatusCode.UNAVAILABLE)
        await asyncio.wait_for(implementation.cancelled.wait(), 20)

    asyncio.run(run())


def test_one_server_keeps_other_groups_apart(tmp_path: Path) -> None:
    """Two groups in one directory, each on its own socket."""

    async def run() -> None:
        async with served(tmp_path, [dummy(), probe()]) as listening:
            assert [path.name for path in listening.sockets] == [
                "rpc-dummy-v1.sock", "rpc-dummy-v1alpha1.sock", "test-probe-v1.sock",
                "rpc-discovery-v1.sock", "test-discovery-v1.sock",
            ]  # fmt: skip
            assert all(path.is_socket() for path in listening.sockets)
        assert not any(path.exists() for path in listening.sockets)

    asyncio.run(run())


def test_discovery(tmp_path: Path) -> None:
    """Each project has a socket that lists its groups and their versions."""

    async def run() -> None:
        group = renamed(probe(deprecated=True), project="rpc")
        async with (
            served(tmp_path, [group, dummy(), probe()]),
            grpc.aio.insecure_channel(f"unix:{tmp_path}/rpc-discovery-v1.sock") as channel,
        ):
            answer = await DiscoveryClient(channel).list_groups(api_pb2.ListGroupsRequest())
        assert [each.name for each in answer.groups] == ["dummy", "probe"]
        first, second = answer.groups
        assert [
            (each.name, each.service, each.endpoint, each.deprecated, each.calls)
            for each in first.versions
        ] == [
            ("v1", "v1.Dummy", "rpc-dummy-v1", False, ["ComputeDouble"]),
            ("v1alpha1", "v1alpha1.Dummy", "rpc-dummy-v1alpha1", False, ["ComputeDouble"]),
        ]
        assert second.versions[0].deprecated

    asyncio.run(run())


def test_connections_end_with_the_client(tmp_path: Path) -> None:
    """A client that connects and disconnects without a request affects no other client."""

    async def run() -> None:
        async with probe_client(tmp_path) as client:
            for _ in range(20):
                with socket.socket(socket.AF_UNIX) as connection:
                    connection.connect(str(tmp_path / "test-probe-v1.sock"))
                    connection.send(b"GET / HTTP/1.1\r\n\r\n")
            assert (await client("Echo", text="x")).text == "x"

    asyncio.run(run())
