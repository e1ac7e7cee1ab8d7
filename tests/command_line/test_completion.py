"""`kapiserver completion`: the scripts, in the shells that are installed."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kapiserver.cli import main, parser
from kapiserver.command_line.commands import Command, read_commands
from kapiserver.commands.completion import SHELLS

CASES = (
    ("kapiserver st", ["storage"]),
    ("kapiserver storage ", ["backup", "check", "compact", "copy", "restore"]),
    ("kapiserver serve --logging-f", ["--logging-format"]),
    ("kapiserver serve --logging-format ", ["json", "text"]),
    ("kapiserver storage check --da", ["--data-dir"]),
    ("kapiserver serve --data-dir da", ["data/"]),
    ("kapiserver serve --audit-policy-file po", ["policy.yaml"]),
    ("kapiserver serve --bind-address ", []),
    ("kapiserver check --output s", ["sarif"]),
    ("kapiserver check --output storage --st", ["--strict"]),
    ("kapiserver check po", ["policy.yaml"]),
    ("kapiserver completion ", ["bash", "fish", "zsh"]),
    ("kapiserver doctor --shutdown-s", ["--shutdown-send-retry-after"]),
)
"""What is typed, and what the shells offer."""


@pytest.fixture
def script(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], Path]:
    """A function that writes the script of a shell, in a folder with a folder and a file."""
    (tmp_path / "data").mkdir()
    (tmp_path / "policy.yaml").touch()
    monkeypatch.chdir(tmp_path)

    def write(shell: str) -> Path:
        if shutil.which(shell) is None:
            pytest.skip(f"{shell} is not installed")
        assert main(["completion", shell]) == 0
        file = tmp_path / f"script.{shell}"
        file.write_text(capsys.readouterr().out)
        return file

    return write


def _run(*command: str) -> str:
    process = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert process.stderr == ""
    return process.stdout


@pytest.mark.parametrize("shell", SHELLS)
def test_syntax(script: Callable[[str], Path], shell: str) -> None:
    """The shell reads the script without complaints."""
    assert _run(shell, "-n", str(script(shell))) == ""


def test_bash(script: Callable[[str], Path]) -> None:
    """bash offers commands, flags and values; it splits words at `=`."""
    file = script("bash")
    lines = [typed.split(" ") for typed, _ in CASES]
    lines += [["kapiserver", "serve", "--logging-format", "=", "j"]]
    lines += [["kapiserver", "serve", "--unsafe-no-fsync", "="]]
    calls = [
        f"COMP_WORDS=({' '.join(map(repr, words))}); COMP_CWORD={len(words) - 1}; _kapiserver; "
        'echo "${COMPREPLY[*]}"'
        for words in lines
    ]
    output = _run("bash", "-c", "\n".join([f"source {file}", *calls])).splitlines()
    offered = [
        sorted(f"{word}/" if word == "data" else word for word in line.split()) for line in output
    ]
    assert offered == [expected for _, expected in CASES] + [["json"], ["false", "true"]]


def test_fish(script: Callable[[str], Path]) -> None:
    """fish offers commands, flags and values."""
    file = script("fish")
    calls = [f"echo '#'; complete -C '{typed}'" for typed, _ in CASES]
    output = _run("fish", "--no-config", "-c", "\n".join([f"source {file}", *calls]))
    offered = [
        sorted(line.partition("\t")[0] for line in part.splitlines() if line)
        for part in output.split("#\n")[1:]
    ]
    assert offered == [expected for _, expected in CASES]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("kapiserver stor\t", "kapiserver storage "),
        ("kapiserver storage che\t", "kapiserver storage check "),
        ("kapiserver serve --logging-f\t", "kapiserver serve --logging-format="),
        ("kapiserver serve --logging-format=j\t", "kapiserver serve --logging-format=json "),
        ("kapiserver serve --logging-format js\t", "kapiserver serve --logging-format json "),
        ("kapiserver serve --data-dir da\t", "kapiserver serve --data-dir data/"),
        ("kapiserver check po\t", "kapiserver check policy.yaml "),
        ("kapiserver completion z\t", "kapiserver completion zsh "),
    ],
)
def test_zsh(script: Callable[[str], Path], typed: str, completed: str) -> None:
    """zsh completes commands, flags and values in a terminal."""
    file = script("zsh")
    setup = f"autoload -Uz compinit; compinit -u -D; source {file}; print READ''Y"
    terminal = Terminal(["zsh", "-f", "-i"])
    try:
        terminal.send(f"{setup}\n")
        terminal.read_until("READY\r\n")
        terminal.send(typed)
        terminal.read_until(completed)
    finally:
        terminal.close()


class Terminal:
    """A shell in a terminal."""

    def __init__(self, command: list[str]) -> None:
        self._pid, self._descriptor = pty.fork()
        if not self._pid:
            os.environ |= {"TERM": "dumb", "PS1": "> "}
            os.execvp(command[0], command)

    def send(self, text: str) -> None:
        """Type a text."""
        os.write(self._descriptor, text.encode())

    def read_until(self, text: str) -> None:
        """Read until the screen has the text."""
        shown = ""
        while text not in shown:
            ready, _, _ = select.select([self._descriptor], [], [], 30)
            assert ready, f"{text!r} is not in {shown!r}"
            shown += re.sub("\x07|\r\r\n", "", os.read(self._descriptor, 4096).decode())

    def close(self) -> None:
        """End the shell."""
        os.close(self._descriptor)
        os.waitpid(self._pid, 0)


def _commands(root: Command) -> list[str]:
    return [" ".join(command.words) for command in root.walk()]


def test_all_commands_and_flags() -> None:
    """The records have every command, and each flag has a summary."""
    root = read_commands(parser())
    assert {"", "serve", "storage", "storage check", "rpc serve"} <= set(_commands(root))
    flags = [argument for command in root.walk() for argument in command.arguments]
    assert all(argument.summary and "\n" not in argument.summary for argument in flags)
    assert [
        each.flags for each in flags if each.metavar == "DIR" and each.completes != "folder"
    ] == []
