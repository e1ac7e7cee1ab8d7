"""The man page that the wheel installs: a file of the sources, as builds have no dependencies."""

from __future__ import annotations

from pathlib import Path

from kapiserver import __version__, command_line
from kapiserver.cli import parser
from kapiserver.command_line.commands import read_commands
from kapiserver.command_line.man_page import man_page

MAN_PAGE = Path(command_line.__file__).parent / "kapiserver.1"


def manual() -> str:
    """Return the text of the man page of this version."""
    return man_page(read_commands(parser()), __version__)
