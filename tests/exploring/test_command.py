"""The command explores a real operator in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from xml.etree import ElementTree

import pytest

from kapiserver.cli import main
from tests.explore.corpus import FOLDER
from tests.exploring.copierkit import COPIER

SECOND_SECRET = "tests.explore.operators.crashes.second_secret"
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
    return main(["explore", "--workload", workload, "--processes", "2", *flags, "--", *operator])


@pytest.mark.slow
def test_an_operator_that_forgets(workload: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The report says what was done, what is wrong, and how to repeat it."""
    plan = "crash-before@create:secrets:default:a:1"
    operator = (sys.executable, COPIER, "forgets")
    assert explore(workload, "--plan", plan, operator=operator) == 1
    report = capsys.readouterr().out
    assert "The operator was killed before create secrets default/a, and restarted." in report
    assert "    - secrets default/a: is missing" in report
    assert f"--plan {plan} -- {sys.executable} {COPIER} forgets" in report


@pytest.mark.slow
def test_other_forms(workload: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """JSON and JUnit have the same findings, and the recording of a failing plan can be opened."""
    invariants = tmp_path / "invariants.py"
    invariants.write_text(
        "def no_secret(objects):\n    assert not objects.list('secrets'), 'there is one'\n"
    )
    flags = ["--invariants", str(invariants), "--plan", "conflict@update:secrets:default:a:1"]
    operator = (sys.executable, COPIER, "overwrites")
    save = ["--save", str(tmp_path / "recordings")]
    assert explore(workload, *flags, *save, "--output", "json", operator=operator) == 1
    plain, failing = json.loads(capsys.readouterr().out)["findings"]
    assert plain["sentence"] == "Nothing was done to the operator."
    assert [fault["oracle"] for fault in plain["faults"]] == ["invariant"]
    assert [fault["oracle"] for fault in failing["faults"]] == ["lost change"]
    assert f"--save {save[1]} --plan {flags[-1]} -- " in failing["repeat"]
    assert main(["replay", failing["recording"], "--print"]) == 0
    assert "secrets/default/a" in capsys.readouterr().out
    assert explore(workload, *flags, "--output", "junit", operator=operator) == 1
    suite = ElementTree.fromstring(capsys.readouterr().out)
    assert (suite.get("tests"), suite.get("failures")) == ("3", "2")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("processes", ["1", "2"])
def test_what_an_operator_prints(processes: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Standard output has the report alone, also if the operator runs in this process."""
    workload, plan = str(FOLDER / "workloads" / "create.yaml"), "miss@step::::0@step::::1=databases"
    operator = ("tests.explore.operators.in_process:run", f"{SECOND_SECRET}:TlsSecrets")
    flags = ("--crds", str(FOLDER / "crds"), "--in-process", "--processes", processes)
    plans = ("--plan", f"{plan}.example.com", "--output", "json")
    assert explore(workload, *flags, *plans, operator=operator) == 0
    output = capfd.readouterr()
    assert json.loads(output.out)["done"] == 1
    assert "the watch of databases ended: 410" in output.err


@pytest.mark.slow
def test_an_operator_without_faults(workload: str, capsys: pytest.CaptureFixture[str]) -> None:
    """All plans pass."""
    Path(workload).write_text(WORKLOAD + PATCH)
    operator = (sys.executable, COPIER)
    assert explore(workload, "--plans", "24", operator=operator) == 0
    output = capsys.readouterr()
    assert output.out == ""
    assert ", 0 failed" in output.err
    assert "24 done" in output.err


@pytest.mark.slow
def test_a_step_that_needs_what_comes_late(workload: str) -> None:
    """A step that the server refuses is tried again when the plan holds nothing back any more."""
    steps = "- settle:\n- delete: secrets/a\n- settle:\n"
    Path(workload).write_text(f"{WORKLOAD}{steps}")
    plan = "miss@step::::0@step::::3=configmaps"
    assert explore(workload, "--plan", plan, operator=(sys.executable, COPIER)) == 0


@pytest.mark.slow
def test_a_workload_that_does_not_reach_its_end(
    workload: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message says which step failed, and what the operator wrote."""
    Path(workload).write_text(f"{WORKLOAD}- wait: {{for: create, on: secret/b, timeout: 1s}}\n")
    program = f"import runpy; print('hello', flush=True); runpy.run_path({COPIER!r})"
    assert explore(workload, operator=(sys.executable, "-c", program)) == 2
    message = capsys.readouterr().err
    assert "step 2 (wait for create of secret/b) failed" in message
    assert message.endswith("the operator wrote:\nhello\n")


@pytest.mark.parametrize(
    ("text", "operator", "message"),
    [
        (WORKLOAD, ("/missing",), "No such file"),
        (WORKLOAD, (), "write the operator's command after --"),
        ("steps: []", ("true",), "at least one step"),
        (WORKLOAD, ("sh", "-c", "echo $0 $1; exit 3", "a", "--"), "exited with status 3:\na --"),
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


def test_a_setting_that_there_is_not(workload: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit status 2, and a sentence with its name."""
    assert explore(workload, "--setting", "simulated=true", operator=("true",)) == 2
    assert "kapiserver: TestServer has no setting simulated" in capsys.readouterr().err


_WAITER = "import os, sys, time; print(os.getpid(), file=open(sys.argv[1], 'w')); time.sleep(600)"


@pytest.mark.slow
@pytest.mark.parametrize("processes", ["1", "2"])
def test_sigterm_ends_the_operators(workload: str, tmp_path: Path, processes: str) -> None:
    """An exploration that is ended by SIGTERM leaves no operator behind."""
    pipe = tmp_path / "pid"
    os.mkfifo(pipe)
    exploration = subprocess.Popen(
        [
            *(sys.executable, "-m", "kapiserver", "explore", "--workload", workload),
            *("--processes", processes, "--", sys.executable, "-c", _WAITER, str(pipe)),
        ]
    )
    operator = int(pipe.read_text().split()[0])
    exploration.send_signal(signal.SIGTERM)
    assert exploration.wait(60) == 130
    with suppress(ProcessLookupError):
        os.kill(operator, signal.SIGKILL)
        pytest.fail("the operator runs on")
