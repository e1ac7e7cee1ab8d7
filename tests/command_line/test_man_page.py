"""The man page: it is current, and the programs that show man pages read it without complaints."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from docs.generator.manual import MAN_PAGE, manual
from kapiserver.cli import parser
from tests.test_flags import flags_of

ACCEPTED = 'missing date, using "": TH'
"""A date would change without a change of the page."""


def test_page_is_current() -> None:
    """The file in the sources is what the parsers say now."""
    assert MAN_PAGE.read_text() == manual(), "run `make tables`"


@pytest.mark.skipif(shutil.which("mandoc") is None, reason="mandoc is not installed")
def test_mandoc() -> None:
    """mandoc has no warning but the accepted one."""
    command = ["mandoc", "-T", "lint", "-W", "warning", str(MAN_PAGE)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.stderr == ""
    assert [line for line in process.stdout.splitlines() if ACCEPTED not in line] == []


@pytest.mark.skipif(shutil.which("man") is None, reason="man is not installed")
def test_man() -> None:
    """man shows each command and each flag."""
    process = subprocess.run(
        ["man", "--warnings", "-l", str(MAN_PAGE)],
        env={"PATH": "/usr/bin:/bin", "MANWIDTH": "400", "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0
    assert process.stderr == ""
    for flag in flags_of(parser()):
        for name in flag.name.split(", "):
            assert name in process.stdout, flag.place
    assert "KAPISERVER STORAGE CHECK" in process.stdout
