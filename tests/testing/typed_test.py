"""What type checkers see of the controls of a test server; `make lint` runs mypy on this file.

An error that mypy should report and does not is an unused `type: ignore`, which mypy reports.
"""

from __future__ import annotations

from typing import assert_type

from kapiserver.api.types import Tree
from kapiserver.testing import TestServer
from kapiserver.testing.history.request_record import RequestRecord
from kapiserver.testing.state.memory_store import Snapshot


def synchronous_test(server: TestServer) -> None:
    """The synchronous form has the parameters and the result of the asynchronous one."""
    assert_type(server.objects.wait_for("pod/web", "create", timeout="1s"), Tree | None)
    assert_type(server.state.load("a.yaml", "b.yaml", namespace="x"), list[Tree])
    assert_type(server.state.snapshot(), Snapshot)
    server.state.restore(server.state.snapshot())
    server.clock.advance("1m")
    server.objects.wait_for("pod/web", "create", time_out="1s")  # type: ignore[call-arg]
    server.clock.advance()  # type: ignore[call-arg]
    server.state.restore("a")  # type: ignore[arg-type]


async def asynchronous_test(server: TestServer) -> None:
    """The asynchronous form has the signature with which it was written."""
    assert_type(await server.objects.wait_for_async("pod/web", "delete"), Tree | None)
    assert_type(await server.state.dump_async("pod", everything=True), str)
    await server.clock.advance_async(60)
    await server.reset_async(1)  # type: ignore[arg-type]


def selections(server: TestServer) -> None:
    """Requests and faults are selected by the same keyword arguments."""
    assert_type(server.requests.select(verb=["get", "list"], status=404), list[RequestRecord])
    server.requests.assert_no_hot_loop(requests=5, name="web-*")
    server.requests.select(verbs="get")  # type: ignore[call-arg]
    server.faults.drop(resource="pods", user_agent=1)  # type: ignore[arg-type]
