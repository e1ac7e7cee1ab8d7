"""Commands that run beside a test."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from kapiserver.testing.fixtures.commands import check_command, running_command

PROGRAM = """
import os, signal, sys, time
print("level", os.environ["LEVEL"], flush=True)
with open(sys.argv[1], "w") as pipe:
    print(os.getpid(), os.environ["KUBECONFIG"], file=pipe)
time.sleep(600)
"""


def test_a_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It has the kubeconfig and its own variables, ends with the block, and its output is shown."""
    pipe, kubeconfig = tmp_path / "pipe", tmp_path / "kubeconfig"
    os.mkfifo(pipe)
    command = [sys.executable, "-c", PROGRAM, str(pipe)]
    with running_command(command, kubeconfig, {"LEVEL": "debug"}):
        pid, path = pipe.read_text().split()
        assert path == str(kubeconfig)
    assert capsys.readouterr().out == "level debug\n"
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)


def test_a_command_that_is_missing(tmp_path: Path) -> None:
    """The error names it."""
    with (
        pytest.raises(FileNotFoundError, match="no-such-command"),
        running_command(["no-such-command"], tmp_path / "kubeconfig", {}),
    ):
        pass


@pytest.mark.parametrize("command", [(), (["node", "operator.js"],), ("node", 1)])
def test_a_command_that_is_no_command(command: tuple[object, ...]) -> None:
    """The error says how to call the fixture."""
    with pytest.raises(TypeError, match=r'as in kube_command\("node", "operator.js"\), not \('):
        check_command(command)


def test_a_command_with_paths(tmp_path: Path) -> None:
    """A program and its arguments may be paths."""
    check_command((tmp_path / "operator", "--config", tmp_path / "config"))
