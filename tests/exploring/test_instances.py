"""Instances of an operator that start and end during a plan."""

from __future__ import annotations

import asyncio
import socket

import pytest

from tests.exploring.copierkit import run_copier


@pytest.mark.slow
@pytest.mark.parametrize("action", ["crash-idle@step::::1", "down@step::::1"])
def test_the_last_instance_is_not_stopped(action: str) -> None:
    """The end of an overlap stops no instance if the two were killed meanwhile."""
    history, _ = asyncio.run(run_copier(f"overlap@step::::0+{action}", "a", "b"))
    assert history.unreached == ""


@pytest.mark.slow
def test_a_port_in_use() -> None:
    """Two instances that listen on one port cannot run on one machine; that is no fault."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    run = run_copier("overlap@step::::0", "a", faults=["listens"], environment={"PORT": port})
    _, is_pending = asyncio.run(run)
    assert is_pending
