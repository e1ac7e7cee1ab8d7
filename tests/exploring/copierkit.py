"""Runs the operator of `copier.py` under a plan."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kapiserver.exploring.history import History
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


async def run_copier(
    plan: str,
    *names: str,
    pace: Pace | None = None,
    faults: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> tuple[History, bool]:
    """Run a workload that has ConfigMaps of these names copied. Return what happened, and whether
    the plan could not be done."""
    launcher = CommandLauncher([sys.executable, COPIER, *faults], environment)
    steps = [step for name in names for step in copied(name)]
    setup = Setup(launcher=launcher, steps=parse_workload({"steps": steps}, Path()))
    async with open_session(setup) as session:
        history = await session.run(Assignment(plan=parse_plan(plan), pace=pace or Pace()))
        return history, session.is_pending
