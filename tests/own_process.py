"""Tests with the mark `own_process` run in a fresh interpreter.

These tests judge or limit a whole process: what the garbage collector finds, the memory that calls
take, the longest turn of an event loop, the number of open files. Servers that other tests share
run in threads of the process and change these figures, and so does the first use of each module, in
an order that differs with each run.

The cases of one test share a process, since its start costs 1.7 s of CPU. Tests of a module share
it, too, if their marks have the same name: `own_process("cost")`. `--in-process` runs them in
pytest's own process, for a debugger.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

MARK = "own_process"
OPTION = "--in-process"


class OwnProcess(pytest.Item):
    """Cases of one or more tests of a module, which run in a process of their own."""

    def __init__(self, *, cases: list[pytest.Function], **arguments: object) -> None:
        """Take over the marks of the first test's function, so that `skipif` holds."""
        super().__init__(**arguments)
        self._cases = cases
        self.own_markers.extend(getattr(cases[0].obj, "pytestmark", []))

    def runtest(self) -> None:
        """Run the cases; raise CasesFailed with the output of pytest if one fails."""
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-n",
            "0",
            "-p",
            "no:cacheprovider",
            OPTION,
        ]
        finished = subprocess.run(
            [*command, *(case.nodeid for case in self._cases)],
            cwd=self.config.rootpath,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
        if finished.returncode != 0:
            first_line = f"The test's own process ended with {finished.returncode}:"
            raise CasesFailed(f"{first_line}\n{finished.stdout}")

    def repr_failure(
        self, excinfo: pytest.ExceptionInfo[BaseException], style: None = None
    ) -> object:
        """Return the failures, as the other process printed them."""
        if isinstance(excinfo.value, CasesFailed):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[os.PathLike[str] | str, int | None, str]:
        """Return the place of the first case."""
        return self._cases[0].reportinfo()


class CasesFailed(Exception):
    """Pytest failed in the other process; the text ends with its output."""


def replace_marked(items: list[pytest.Item]) -> None:
    """Put one OwnProcess into the place of the cases that share a process."""
    replaced: list[pytest.Item] = []
    cases_of: dict[tuple[Path, str], list[pytest.Function]] = {}
    for item in items:
        mark = item.get_closest_marker(MARK)
        if not isinstance(item, pytest.Function) or mark is None:
            replaced.append(item)
            continue
        name = mark.args[0] if mark.args else item.originalname
        cases = cases_of.setdefault((item.path, name), [])
        cases.append(item)
        if len(cases) == 1:
            replaced.append(OwnProcess.from_parent(item.parent, name=name, cases=cases))
    items[:] = replaced
