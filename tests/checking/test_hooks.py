"""The hook of pre-commit and the action for CI run the command with arguments that it takes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from kapiserver.cli import parser

ROOT = Path(__file__).parent.parent.parent
BAD = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: A}\n"


def test_hook() -> None:
    """pre-commit runs the command with the names of the changed files."""
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    program, *arguments = hook["entry"].split()
    assert program == "kapiserver"
    assert parser().parse_args([*arguments, "a.yaml", "b.yaml"]).paths == ["a.yaml", "b.yaml"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="actions run in bash")
def test_action(tmp_path: Path) -> None:
    """The last step of the action prints workflow commands and fails with the command."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    step = action["runs"]["steps"][-1]
    inputs = {name.upper(): value for name, value in step["env"].items()}
    assert set(re.findall(r"inputs\.(\w+)", str(inputs))) == action["inputs"].keys()
    (tmp_path / "a.yaml").write_text(BAD)
    script = f'kapiserver() {{ "{sys.executable}" -m kapiserver "$@"; }}\n{step["run"]}'
    environment = {
        **os.environ, "PATHS": str(tmp_path), "ARGUMENTS": "--release 1.34 --strict",
        "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    completed = subprocess.run(
        ["bash", "-e", "-c", script],
        env=environment, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert completed.returncode == 1
    assert completed.stdout.startswith("::error file=")
