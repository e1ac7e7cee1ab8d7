"""Instances of an operator that start and end during a plan."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from kapiserver.exploring.planning.plans import parse_plan
from kapiserver.exploring.running.assignment import Assignment, Pace
from kapiserver.exploring.running.operators.programs import CommandLauncher
from kapiserver.exploring.running.session import Setup, open_session
from kapiserver.exploring.steps import parse_workload

COPIER = str(Path(__file__).parent / "copier.py")


def copied(name: str) -> list[dict[str, Any]]:
    """Steps that create a ConfigMap and wait for its Secret."""
    metadata = {"name": name, "labels": {"copy": "yes"}}
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    return [{"apply": config_map}, {"wait": {"for": "create", "on": f"secrets/{name}"}}]


@pytest.mark.slow
@pytest.mark.parametrize("action", ["crash-idle@step::::1", "down@step::::1"])
def test_the_last_instance_is_not_stopped(action: str) -> None:
    """The end of an overlap stops no instance if the two were killed meanwhile."""

    async def run() -> str:
        steps = parse_workload({"steps": [*copied("a"), *copied("b")]}, Path())
        setup = Setup(launcher=CommandLauncher([sys.executable, COPIER]), steps=steps)
        async with open_session(setup) as session:
            plan = parse_plan(f"overlap@step::::0+{action}")
            return (await session.run(Assignment(plan=plan, pace=Pace()))).unreached

    assert asyncio.run(run()) == ""
