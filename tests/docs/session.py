"""Runs the blocks of a page as a reader would: in one directory, with a terminal for each server
and one for everything else.

Ports of the page are replaced by free ones. A server replaces the last one on its port. Output is
compared loosely: `...` stands for any text; uids, times, resource versions and white space may
differ.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from tests.docs.blocks import ROOT, Block, commands
from tests.e2e.programs import TOOLS
from tests.storage import etcd_server

PORTS = ("6443", "6444", "8080", "2379", "2380")
"""Ports on the pages."""
COMMAND_SECONDS = 120
_SERVER = re.compile(
    r"kapiserver (serve|testing-server|rpc serve)\b|python \w+\.py --secure-port\b"
)
_READY = re.compile(r"^  kubectl get \w+|controlToken")
_VARYING = (
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "UID"),
    (re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "TIME"),
    (re.compile(r'(resourceVersion"?: ?)"\d+"'), r'\1"RV"'),
    (re.compile(r'("continue": )"[\w-]+"'), r'\1"TOKEN"'),
    (re.compile(r"^[0-9a-f]{8}: .*$", re.M), "HEX"),
    (re.compile(r"\bin \d+\.\d+s\b( \(\d+:\d\d:\d\d\))?"), "in SECONDS"),
    (re.compile(r"\b(\d+m\d+s|\d+[ms])$", re.M), "AGE"),
    (re.compile(r"\s+"), " "),
)


class Session:
    """The terminals of one page. `folder` is the reader's directory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._servers: dict[str, subprocess.Popen[str]] = {}
        """By port."""
        self._background: list[subprocess.Popen[bytes]] = []
        self._ports = {port: str(etcd_server.free_port()) for port in PORTS}
        self._environment = _environment(folder)
        (folder / ".variables").touch()

    def run(self, block: Block) -> None:
        """Write the file of a block, or run its commands. Raises AssertionError if the output of
        a command is not that of the page."""
        if block.language != "console":
            self._write(block)
            return
        if "examples/" in block.text:
            self._link_examples()
        for command in commands(self._with_free_ports(block.text)):
            if _SERVER.match(command.text):
                self._serve(command.text, command.output)
            elif command.text.endswith(" &"):
                self._start(command.text.removesuffix(" &"))
            elif command.output.endswith("^C"):
                self._stream(command.text, command.output.removesuffix("^C"))
            else:
                self._command(command.text, command.output)

    def _link_examples(self) -> None:
        """Link the examples, which readers have in their clone."""
        link = self._folder / "examples"
        if not link.exists():
            link.symlink_to(ROOT / "examples")

    def close(self) -> None:
        """End all programs. Raises AssertionError if a server does not end well."""
        try:
            for port in tuple(self._servers):
                self._stop(port)
        finally:
            for process in self._background:
                os.killpg(process.pid, signal.SIGTERM)
                process.wait(COMMAND_SECONDS)

    def _stop(self, port: str) -> None:
        server = self._servers.pop(port, None)
        if server is not None:
            os.killpg(server.pid, signal.SIGTERM)
            output, _ = server.communicate(timeout=COMMAND_SECONDS)
            assert server.returncode == 0, output

    def _write(self, block: Block) -> None:
        assert block.file_name, f"a file name in the first line: {block.text[:60]}"
        file = self._folder / block.file_name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(self._with_free_ports(block.text))

    def _with_free_ports(self, text: str) -> str:
        return re.sub("|".join(PORTS), lambda match: self._ports[match[0]], text)

    def _shell(self, command: str) -> list[str]:
        """Variables live on in a file."""
        script = (
            f"set -a; . ./.variables\n{command}\nstatus=$?; export -p >.variables; exit $status"
        )
        return ["bash", "-c", script]

    def _command(self, command: str, expected: str) -> None:
        completed = subprocess.run(
            self._shell(command), cwd=self._folder, env=self._environment, text=True, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=COMMAND_SECONDS,
        )  # fmt: skip
        if expected:
            assert matches(expected, completed.stdout), f"$ {command}\n{completed.stdout}"
        else:
            assert completed.returncode == 0, f"$ {command}\n{completed.stdout}"

    def _serve(self, command: str, expected: str) -> None:
        """Start a server, and wait until it is ready."""
        port_flag = re.search(r"--secure-port (\d+)", command)
        port = port_flag[1] if port_flag else self._ports["6443"]
        flag = "" if port_flag else f" --secure-port {port}"
        self._stop(port)
        server = subprocess.Popen(
            ["bash", "-c", f"set -a; . ./.variables\nexec {command}{flag}"],
            cwd=self._folder, env=self._environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        self._servers[port] = server
        assert server.stdout is not None
        printed = []
        for line in server.stdout:
            # The server warns while an etcd that was started just before is not ready yet.
            if not line.startswith("time="):
                printed.append(line)
            if _READY.search(line):
                break
        else:
            raise AssertionError(f"$ {command}\n{''.join(printed)}")
        assert not expected or matches(expected, "".join(printed)), "".join(printed)

    def _start(self, command: str) -> None:
        """Start a program in the background."""
        with (self._folder / ".background").open("ab") as log:
            process = subprocess.Popen(
                ["bash", "-c", f"set -a; . ./.variables\nexec {command}"],
                cwd=self._folder, env=self._environment,
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        self._background.append(process)

    def _stream(self, command: str, expected: str) -> None:
        """Read as many lines as the page shows, and then end the command."""
        script = f"set -a; . ./.variables\n{command}"
        with subprocess.Popen(
            ["bash", "-c", script], cwd=self._folder, env=self._environment, text=True,
            stdout=subprocess.PIPE, start_new_session=True,
        ) as process:  # fmt: skip
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in expected.splitlines()]
            os.killpg(process.pid, signal.SIGTERM)  # a background job ignores SIGINT
        assert matches(expected, "".join(lines)), f"$ {command}\n{''.join(lines)}"


def matches(expected: str, printed: str) -> bool:
    """Whether output is that of a page, but for what varies."""
    parts = _normalized(expected).split("...")
    pattern = ".*".join(re.escape(part.strip()) for part in parts)
    pattern = pattern.replace(r"\ .*", r"\ ?.*").replace(r".*\ ", r".*\ ?")
    return re.fullmatch(pattern, _normalized(printed), re.S) is not None


def _normalized(text: str) -> str:
    for pattern, replacement in _VARYING:
        text = pattern.sub(replacement, text)
    return text.strip()


def _environment(folder: Path) -> dict[str, str]:
    """Return the environment of a terminal whose PATH has this kapiserver, Python and kubectl."""
    programs = folder / ".bin"
    programs.mkdir()
    for name, arguments in (
        ("kapiserver", "-m kapiserver"),
        ("python", ""),
        ("pytest", "-m pytest -p no:cacheprovider -p kapiserver.testing.pytest_plugin"),
    ):
        script = programs / name
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n')
        script.chmod(0o755)
    binaries = {"etcd": etcd_server.program()}
    for name in ("kubectl", "helm"):
        binaries[name] = TOOLS / name if (TOOLS / name).exists() else shutil.which(name)
    for name, path in binaries.items():
        if path is not None:
            (programs / name).symlink_to(path)
    return {
        **readers_environment(),
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder),
    }


def readers_environment() -> dict[str, str]:
    """Return the environment without what is particular to test runs: pytest has the plugin of
    kapiserver alone, and Python keeps its bytecode, without which each program compiles for
    seconds."""
    absent = ("KUBECONFIG", "PYTHONDONTWRITEBYTECODE", "PYTEST_ADDOPTS")
    return {
        **{name: value for name, value in os.environ.items() if name not in absent},
        "PYTHONPATH": str(ROOT),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
