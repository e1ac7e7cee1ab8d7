"""kopf operators beside a test server."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import kopf
import pytest

from kapiserver.testing import TestNamespace, TestServer

# kopf leaves sockets of its client to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::DeprecationWarning"
)


@pytest.fixture
def quiet_logs() -> Any:
    """kopf logs the objects it handles; its records are not of this test."""
    logging.getLogger("kopf").setLevel(logging.CRITICAL)
    yield
    logging.getLogger("kopf").setLevel(logging.NOTSET)


def test_operator_in_the_loop_of_the_test(
    kube_session: TestNamespace, kubeconfig: Path, quiet_logs: None
) -> None:
    """`kopf.operator()` in the test's loop handles objects of a server on its own thread; at its
    end it cancels no task of the server, which goes on serving."""
    server = kube_session.server
    asyncio.run(_operate(server, kube_session.name))
    namespaces = server.internal_client().resource("v1", "namespaces")
    assert server.run(namespaces.get("default"))["kind"] == "Namespace"


async def _operate(server: TestServer, namespace: str) -> None:
    registry, handled = kopf.OperatorRegistry(), asyncio.Event()
    kopf.on.login(registry=registry)(kopf.login_with_kubeconfig)

    @kopf.on.create("configmaps", registry=registry)
    async def on_create(name: str, **_: Any) -> None:
        if name == "mine":
            handled.set()

    ready, stop = asyncio.Event(), asyncio.Event()
    operator = asyncio.create_task(
        kopf.operator(
            registry=registry,
            namespaces=[namespace],
            standalone=True,
            ready_flag=ready,
            stop_flag=stop,
        )
    )
    await _first(operator, ready)
    maps = server.internal_client().resource("v1", "configmaps", namespace=namespace)
    await server.run_async(maps.create({"metadata": {"name": "mine"}}))
    await _first(operator, handled)
    stop.set()
    await operator


async def _first(operator: asyncio.Task[None], event: asyncio.Event) -> None:
    """Wait for the event; raise the error of an operator that ends before."""
    waiting = asyncio.create_task(event.wait())
    await asyncio.wait({operator, waiting}, return_when=asyncio.FIRST_COMPLETED)
    if not waiting.done():
        waiting.cancel()
        await operator
        raise AssertionError("the operator has ended")
