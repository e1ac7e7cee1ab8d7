"""The steps of docs/rpc.md, run in an empty directory."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.docs.blocks import blocks
from tests.docs.session import Session
from tests.e2e.programs import TOOLS

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "rpc.md"
_BLOCK = re.compile(r"^```(proto|python|sh|text)\n(.*?)^```$", re.M | re.S)
_FILE_NAME = re.compile(r"(?:#|//) (\S+)\n")


class _Terminals:
    """Runs the blocks of the page. A server runs until the next one starts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._server: subprocess.Popen[str] | None = None
        self._output = ""
        path = os.pathsep.join([str(ROOT), str(folder)])
        self._environment = {**os.environ, "PYTHONPATH": path}

    def run(self, kind: str, text: str) -> None:
        """Write a file, run a command, or compare the output of the last command."""
        if kind == "text":
            self._compare(text)
        elif kind == "sh":
            self._command(text.split())
        else:
            match = _FILE_NAME.match(text)
            assert match is not None, text
            file = self._folder / match[1]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)

    def _command(self, words: list[str]) -> None:
        if words[0] == "pip":
            return
        program = [sys.executable, *(["-m", "kapiserver.cli"] * (words[0] == "kapiserver"))]
        if words[:3] == ["kapiserver", "rpc", "serve"]:
            self.stop()
            self._server = subprocess.Popen(
                [*program, *words[1:]], cwd=self._folder, env=self._environment, text=True,
                stdout=subprocess.PIPE,
            )  # fmt: skip
        else:
            completed = subprocess.run(
                [*program, *words[1:]], cwd=self._folder, env=self._environment, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
            )  # fmt: skip
            self._output = completed.stdout
            assert completed.returncode == (
                1 if "write the conversion" in completed.stdout else 0
            ), completed.stdout

    def _compare(self, text: str) -> None:
        if text.startswith("serving"):
            assert self._server is not None
            assert self._server.stdout is not None
            printed = [self._server.stdout.readline() for _ in text.splitlines()]
            assert "".join(printed) == text
        else:
            assert text in self._output

    def stop(self) -> None:
        """End the server."""
        if self._server is not None:
            self._server.terminate()
            self._server.communicate()
            assert self._server.returncode == 0
            self._server = None


def test_steps_of_the_page(tmp_path: Path) -> None:
    """A stranger's steps from an empty directory to a served group with two versions."""
    steps = _BLOCK.findall(PAGE.read_text())
    assert len(steps) > 15
    terminals = _Terminals(tmp_path)
    try:
        for kind, text in steps:
            terminals.run(kind, text)
    finally:
        terminals.stop()
    _run_console(tmp_path)
    generated = subprocess.run(
        [sys.executable, "-m", "kapiserver.cli", "rpc", "generate", "agent", "--check"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False,
    )  # fmt: skip
    assert generated.returncode == 0


def _run_console(folder: Path) -> None:
    """Run the commands of the page that need a server of the API, and kubectl."""
    if not (TOOLS / "kubectl").exists() and shutil.which("kubectl") is None:
        return
    session = Session(folder)
    try:
        for block in blocks(PAGE):
            if block.language == "console":
                session.run(block)
    finally:
        session.close()
