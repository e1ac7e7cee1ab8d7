"""The operator under test, in a thread of the test's process."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import kopf
import pytest
from website_operator import REGISTRY

FOLDER = Path(__file__).parent


@pytest.fixture
def operator(
    request: pytest.FixtureRequest, kubeconfig: Path, kube_crds: Callable[..., object]
) -> Iterator[None]:
    """The operator; with the time of the server if the test uses the fixture kube_apiserver."""
    kube_crds(FOLDER / "crd.yaml")
    now = time.time
    if "kube_apiserver" in request.fixturenames:
        now = request.getfixturevalue("kube_apiserver").clock.now
    ready, stop = threading.Event(), threading.Event()

    def run() -> None:
        operator = kopf.operator(
            registry=REGISTRY,
            clusterwide=True,
            memo=kopf.Memo(now=now),
            ready_flag=ready,
            stop_flag=stop,
        )
        asyncio.run(operator)

    thread = threading.Thread(target=run, name="operator")
    thread.start()
    assert ready.wait(30)
    yield
    stop.set()
    thread.join()
