"""CONTRIBUTING.md agrees with the clone that it describes: its commands work there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, Command, blocks, commands
from tests.docs.session import matches, readers_environment

PAGE = ROOT / "CONTRIBUTING.md"
COMMANDS = [
    command
    for block in blocks(PAGE)
    if block.language == "console" and not block.reason
    for command in commands(block.text)
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.text)
def test_command(command: Command) -> None:
    """A command prints what the page shows, with the programs of the virtual environment."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    completed = subprocess.run(
        ["bash", "-c", command.text],
        cwd=ROOT, env={**readers_environment(), "PATH": path},
        text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300, check=False,
    )  # fmt: skip
    assert completed.returncode == 0, completed.stdout
    assert matches(command.output, completed.stdout), completed.stdout


def test_targets_and_paths() -> None:
    """The targets of make and the paths that the page names exist."""
    text = PAGE.read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"(?:`|\$ )make ([a-z-]+)", text))
    assert targets
    assert all(re.search(rf"^{target}:", makefile, re.M) for target in targets), targets
    paths = re.findall(r"`((?:kapiserver|tests|docs)/[\w./]*)`", text)
    paths += [link for link in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in link]
    assert all((ROOT / path).exists() for path in paths), paths


def test_readme_names_it() -> None:
    """README leads to the page."""
    assert "(CONTRIBUTING.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
