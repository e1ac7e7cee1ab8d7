"""The forms in which `kapiserver explore` writes what it has found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from kapiserver.exploring.explore import Exploration, Finding

Output: TypeAlias = Callable[[Exploration, str], str]
"""Takes an exploration and the command that repeats it, without `--plan`."""


def write_text(exploration: Exploration, command: str) -> str:
    """Return a paragraph for each failing plan."""
    return "".join(f"{_finding_text(finding, command)}\n" for finding in exploration.findings)


def _finding_text(finding: Finding, command: str) -> str:
    lines = [finding.plan.sentence]
    for fault in finding.faults:
        lines.append(f"  {fault.message} [{fault.oracle}]")
        lines += [f"    {line}" for line in fault.lines]
    if finding.plan.injections:
        lines += ["  To repeat:", f"    {command.format(plan=finding.plan.to_text())}"]
    return "".join(f"{line}\n" for line in lines)


OUTPUTS: Mapping[str, Output] = {"text": write_text}
"""The forms by their names in `--output`."""


def count_text(exploration: Exploration) -> str:
    """Return a sentence with the numbers of plans."""
    unreached = f", {exploration.unreached} did not reach their point" * bool(exploration.unreached)
    left = f", {exploration.left} left" * bool(exploration.left)
    return f"{exploration.done} plans done, {len(exploration.findings)} failed{unreached}{left}"
