"""Generated clients, against servers of the generated groups."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest

from examples.rpc.dummy import client_generated as dummy_client
from examples.rpc.dummy import types as dummy_types
from examples.rpc.dummy.registration_generated import GROUP as DUMMY
from examples.rpc.dummy.v1alpha1 import api_pb2 as v1alpha1_pb
from examples.rpc.dummy.v1alpha1.client_generated import DummyClient as DummyV1Alpha1Client
from examples.rpc.shelf import client_generated as shelf_client
from examples.rpc.shelf import types as shelf_types
from examples.rpc.shelf.registration_generated import GROUP as SHELF
from kapiserver.rpc.registration import ConversionError, Group, RPCError
from tests.rpc.groups import served
from tests.rpc.rpckit import Project


def _only(group: Group, version: str) -> Group:
    """The group of an old server, with one version."""
    return replace(group, versions=tuple(item for item in group.versions if item.name == version))


def test_client_of_one_version(tmp_path: Path) -> None:
    """It sends and returns messages of its version."""

    async def run() -> None:
        async with served(tmp_path, [DUMMY]) as listening:
            async with grpc.aio.insecure_channel(f"unix:{listening.sockets[1]}") as channel:
                client = DummyV1Alpha1Client(channel)
                request = v1alpha1_pb.ComputeDoubleRequest(input32=4)
                response = await client.compute_double(request, timeout=20)
            assert response == v1alpha1_pb.ComputeDoubleResponse(response32=8)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("group", "version"),
    [(DUMMY, "v1"), (_only(DUMMY, "v1"), "v1"), (_only(DUMMY, "v1alpha1"), "v1alpha1")],
)
def test_the_newest_version_of_the_server_is_called(
    tmp_path: Path, group: Group, version: str
) -> None:
    """The client tries v1 and falls back to v1alpha1; its types are the same."""

    async def run() -> None:
        async with served(tmp_path, [group]), dummy_client.connect(tmp_path) as client:
            assert client.version == version
            request = dummy_types.ComputeDoubleRequest(input=21)
            assert await client.compute_double(request, timeout=20) == (
                dummy_types.ComputeDoubleResponse(response=42)
            )

    asyncio.run(run())


def test_no_version_is_served(tmp_path: Path) -> None:
    """The error has the reason for each version."""

    async def run() -> None:
        with pytest.raises(
            ConnectionError, match=r"no version is served: v1: UNAVAILABLE: .*v1alp"
        ):
            async with dummy_client.connect(tmp_path):
                pass

    asyncio.run(run())


def test_a_request_that_the_version_cannot_represent(tmp_path: Path) -> None:
    """It is not sent. A value that does not fit and a field that is not there have their paths."""

    async def run() -> None:
        async with served(tmp_path, [_only(DUMMY, "v1alpha1"), _only(SHELF, "v1beta1")]):
            async with dummy_client.connect(tmp_path) as dummy:
                with pytest.raises(ConversionError, match="input: 2147483648 does not fit"):
                    await dummy.compute_double(dummy_types.ComputeDoubleRequest(input=2**31))
            async with shelf_client.connect(tmp_path) as shelf:
                book = shelf_types.Book(title="Emma", authors=["Jane Austen"])
                with pytest.raises(ConversionError) as raised:
                    await shelf.add_book(shelf_types.AddBookRequest(book=book))
                assert raised.value.path == "book.authors"
                book.authors = []
                response = await shelf.add_book(shelf_types.AddBookRequest(book=book), timeout=20)
                assert response.id == "0"

    asyncio.run(run())


def test_a_call_that_the_version_does_not_have(tmp_path: Path) -> None:
    """It raises UNIMPLEMENTED without a request."""

    async def run() -> None:
        async with (
            served(tmp_path, [_only(SHELF, "v1beta1")]),
            shelf_client.connect(tmp_path) as shelf,
        ):
            with pytest.raises(RPCError, match="version v1beta1 has no call ListBooks") as raised:
                await shelf.list_books(shelf_types.ListBooksRequest())
            assert raised.value.code_name == "UNIMPLEMENTED"

    asyncio.run(run())


def test_errors_of_the_server(tmp_path: Path) -> None:
    """An error of the implementation is gRPC's own error at the client."""

    async def run() -> None:
        async with served(tmp_path, [SHELF]), shelf_client.connect(tmp_path) as shelf:
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await shelf.add_book(shelf_types.AddBookRequest(), timeout=20)
            assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert raised.value.details() == "book.title: Required value"

    asyncio.run(run())


def test_stream_of_responses(tmp_path: Path) -> None:
    """Responses are internal types, and come as they are made."""

    async def run() -> None:
        async with served(tmp_path, [SHELF]), shelf_client.connect(tmp_path) as shelf:
            watch = shelf.watch_books(shelf_types.WatchBooksRequest(limit=2), timeout=20)
            for title in ("Emma", "Persuasion"):
                book = shelf_types.Book(title=title, author="Jane Austen")
                await shelf.add_book(shelf_types.AddBookRequest(book=book), timeout=20)
                response = await anext(watch)
                assert response.book is not None
                assert (response.book.title, response.book.authors) == (title, ["Jane Austen"])
            assert [response async for response in watch] == []

    asyncio.run(run())


STREAMS = """
service Meter {
    rpc Sum(stream SumRequest) returns (SumResponse);
    rpc Double(stream DoubleRequest) returns (stream DoubleResponse);
}
message SumRequest { int32 number = 1; }
message SumResponse { int32 number = 1; }
message DoubleRequest { int32 number = 1; }
message DoubleResponse { int32 number = 1; }
"""
STREAMS_SERVER = """
from . import types


class Server:
    async def sum(self, requests, call):
        return types.SumResponse(number=sum([request.number async for request in requests]))

    async def double(self, requests, call):
        async for request in requests:
            yield types.DoubleResponse(number=2 * request.number)
"""


@pytest.fixture(name="meter")
def _meter(project: Project) -> Project:
    project.proto("v1", STREAMS, group="meter")
    project.write("meter/server.py", STREAMS_SERVER)
    project.generate()
    return project


async def _requests(request: Any, *numbers: int) -> AsyncIterator[Any]:
    for number in numbers:
        yield request(number=number)


def test_streams_of_requests(meter: Project, tmp_path: Path) -> None:
    """Requests and responses of streams are internal types."""
    client, types = meter.load("meter.client_generated"), meter.load("meter.types")

    async def run() -> None:
        async with served(tmp_path, [meter.group("meter")]), client.connect(tmp_path) as calls:
            assert (await calls.sum(_requests(types.SumRequest, 1, 2, 3), timeout=20)).number == 6
            doubled = calls.double(_requests(types.DoubleRequest, 1, 2), timeout=20)
            assert [response.number async for response in doubled] == [2, 4]

    asyncio.run(run())


def test_a_stream_with_a_request_that_does_not_fit(meter: Project, tmp_path: Path) -> None:
    """The call ends with the error of the conversion."""
    client, types = meter.load("meter.client_generated"), meter.load("meter.types")

    async def run() -> None:
        async with served(tmp_path, [meter.group("meter")]), client.connect(tmp_path) as calls:
            with pytest.raises(ConversionError, match="number: 2147483648 does not fit"):
                await calls.sum(_requests(types.SumRequest, 1, 2**31), timeout=20)
            doubled = calls.double(_requests(types.DoubleRequest, 2**31), timeout=20)
            with pytest.raises(ConversionError, match="number: 2147483648 does not fit"):
                assert [response async for response in doubled] == []

    asyncio.run(run())
