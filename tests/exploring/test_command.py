"""The command explores a real operator in a process of its own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kapiserver.cli import main

COPIER = str(Path(__file__).parent / "copier.py")
WORKLOAD = """
steps:
- apply: {apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {copy: "yes"}}, data: {k: v}}
"""
PATCH = """
- settle:
- patch: {on: configmap/a, with: {data: {k: w}}}
"""


@pytest.fixture
def workload(tmp_path: Path) -> str:
    path = tmp_path / "steps.yaml"
    path.write_text(WORKLOAD)
    return str(path)


def explore(workload: str, *flags: str, operator: tuple[str, ...]) -> int:
    return main(["explore", "--workload", workload, *flags, "--", *operator])


def test_an_operator_that_forgets(workload: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The report says what was done, what is wrong, and how to repeat it."""
    plan = "crash-before@create:secrets:default:a:1"
    operator = (sys.executable, COPIER, "forgets")
    assert explore(workload, "--plan", plan, operator=operator) == 1
    report = capsys.readouterr().out
    assert "The operator was killed before create secrets default/a, and restarted." in report
    assert "    - secrets default/a: is missing" in report
    assert f"--plan '{plan}' -- {sys.executable} {COPIER} forgets" in report


@pytest.mark.slow
def test_an_operator_without_faults(workload: str, capsys: pytest.CaptureFixture[str]) -> None:
    """All plans pass."""
    Path(workload).write_text(WORKLOAD + PATCH)
    operator = (sys.executable, COPIER)
    assert explore(workload, "--seconds", "120", operator=operator) == 0
    output = capsys.readouterr()
    assert output.out == ""
    assert " 0 failed" in output.err
    assert "left" not in output.err


@pytest.mark.parametrize(
    ("text", "operator", "message"),
    [
        (WORKLOAD, ("/missing",), "No such file"),
        (WORKLOAD, (), "write the operator's command after --"),
        ("steps: []", ("true",), "at least one step"),
        (WORKLOAD, ("sh", "-c", "echo broken; exit 3"), "exited with status 3:\nbroken"),
    ],
)
def test_what_cannot_be_explored(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    text: str,
    operator: tuple[str, ...],
    message: str,
) -> None:
    """Exit status 2, and a sentence."""
    path = tmp_path / "steps.yaml"
    path.write_text(text)
    assert explore(str(path), operator=operator) == 2
    assert message in capsys.readouterr().err
