"""`kapiserver completion`: its argument and output.

`command_line/` writes the scripts and is loaded when the command runs.
"""

from __future__ import annotations

import argparse
import functools
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]

SHELLS = ("bash", "zsh", "fish")


def add_completion_command(commands: _Commands, root: argparse.ArgumentParser) -> None:
    """Add the command, which completes the commands and flags of `root`."""
    completion = commands.add_parser(
        "completion",
        help="print the completion of commands and flags for a shell",
        description="Print a script that lets a shell complete the commands, flags and values of "
        "kapiserver. bash: source <(kapiserver completion bash); zsh, after compinit: "
        "source <(kapiserver completion zsh); fish: kapiserver completion fish | source.",
    )
    completion.set_defaults(command=functools.partial(_print_script, root), verbose=0)
    completion.add_argument(
        "shell", choices=SHELLS, metavar="SHELL",
        help="The shell of the script: bash, zsh or fish. Required.",
    )  # fmt: skip


def _print_script(root: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    from kapiserver.command_line.bash import bash_completion
    from kapiserver.command_line.commands import read_commands
    from kapiserver.command_line.fish import fish_completion
    from kapiserver.command_line.zsh import zsh_completion

    write = {"bash": bash_completion, "zsh": zsh_completion, "fish": fish_completion}
    sys.stdout.write(write[options.shell](read_commands(root)))
    return 0
