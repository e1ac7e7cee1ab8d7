"""Runs the suites of client libraries that are written in other languages.

A suite is copied to `.data/clients/LANGUAGE` and built there, so that neither its build nor the
lock files of its package manager touch the sources. As a program, this module fetches the packages
of the suites that `make test` runs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

SUITES = Path(__file__).parent
ROOT = SUITES.parent.parent
BUILDS = ROOT / ".data" / "clients"
FETCH = {
    "node": ("npm", "install", "--no-fund", "--no-audit", "--no-package-lock"),
    "go": ("go", "mod", "download"),
}
"""Commands that fetch the packages of the suites that `make test` runs."""
INSTALL_SECONDS = 900
SUITE_SECONDS = 1800
"""Compiling client-go takes more than 900 s on a busy machine."""


def suite_folder(language: str, *programs: str, suites: Path = SUITES) -> Path:
    """Return the folder of the suite's build; skip the test if one of the programs is missing."""
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    folder = BUILDS / language
    shutil.copytree(suites / language, folder, dirs_exist_ok=True)
    return folder


def install(folder: Path, *command: str) -> None:
    """Run the command that fetches the suite's packages; skip the test if it fails or takes too
    long."""
    try:
        process = _run(folder, command, {}, INSTALL_SECONDS)
    except subprocess.TimeoutExpired:
        pytest.skip(f"{command[0]} cannot fetch the packages in {INSTALL_SECONDS} s")
    if process.returncode != 0:
        last_lines = "\n".join(process.stdout.splitlines()[-5:])
        pytest.skip(f"{command[0]} cannot fetch the packages: {last_lines}")


def run_suite(folder: Path, environment: dict[str, str], *command: str) -> str:
    """Run the suite and return its output; fail with the output unless the exit code is 0."""
    process = _run(folder, command, environment, SUITE_SECONDS)
    assert process.returncode == 0, process.stdout
    return process.stdout


def _run(
    folder: Path, command: Sequence[str], environment: dict[str, str], timeout: int
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["nice", "-n", "10", *command],
        cwd=folder,
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
        check=False,
    )


def main() -> None:
    for language, command in FETCH.items():
        print(f"Fetching the packages of tests/clients/{language} ...")
        try:
            install(suite_folder(language, command[0]), *command)
        except pytest.skip.Exception as reason:
            print(f"not available here; the tests that use them are skipped: {reason}")


if __name__ == "__main__":
    main()
