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
BAD = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\n"


def test_hook() -> None:
    """pre-commit runs the command with the names of the changed files."""
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    program, *arguments = hook["entry"].split()
    assert program == "kapiserver"
    assert parser().parse_args([*arguments, "a.yaml", "b.yaml"]).paths == ["a.yaml", "b.yaml"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="actions run in bash")
def test_action(tmp_path: Path) -> None:
    """The last step of the action prints workflow commands and fails with the command. Paths may be
    in several lines."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    step = action["runs"]["steps"][-1]
    assert set(re.findall(r"inputs\.(\w+)", str(step["env"]))) == action["inputs"].keys()
    files = [tmp_path / name for name in ("A.yaml", "B.yaml")]
    for file in files:
        file.write_text(BAD % file.stem)
    script = f'python3() {{ "{sys.executable}" "$@"; }}\n{step["run"]}'
    environment = {
        **os.environ, "PATHS": "\n".join(map(str, files)) + "\n",
        "ARGUMENTS": "--release 1.34 --strict", "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    completed = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        env=environment, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert completed.returncode == 1
    commands = completed.stdout.splitlines()
    assert len(commands) == len(files)
    for command, file in zip(commands, files, strict=True):
        assert command.startswith(f"::error file={file},")
