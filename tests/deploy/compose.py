"""Runs the services of a compose file as processes of this machine, without a container engine.

A `Rehearsal` reads the file and gives each host a loopback port for each of its ports, and each
volume a folder. In commands, environments and mounted files it replaces the addresses and paths of
containers by these. What an engine does apart from that (users, capabilities, read-only file
systems) is not rehearsed.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.storage.etcd_server import free_port

_ADDRESS = re.compile(r"(?P<host>[a-z]+-\d|0\.0\.0\.0|127\.0\.0\.1|):(?P<port>\d{4})\b")
_PORT_FLAG = re.compile(r"--secure-port=(\d+)")


def services_of(file: Path) -> dict[str, Any]:
    """Return the services of a compose file by name."""
    services: dict[str, Any] = yaml.safe_load(file.read_text())["services"]
    return services


@dataclass
class Rehearsal:
    """A compose file whose services run in folders below `folder`.

    programs    the paths of programs, in place of those in the images
    """

    file: Path
    folder: Path
    programs: dict[str, str]
    _ports: dict[tuple[str, int], int] = field(default_factory=dict)
    _processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def port(self, service: str, port: int) -> int:
        """Return the port of this machine that stands for one of a service."""
        return self._ports.setdefault((service, port), free_port())

    def command(self, service: str) -> tuple[list[str], dict[str, str]]:
        """Return the command line of a service and its environment."""
        described = services_of(self.file)[service]
        words = [*described.get("entrypoint", []), *described.get("command", [])]
        environment = described.get("environment", {})
        return (
            [self._local(service, word) for word in words],
            {name: self._local(service, value) for name, value in environment.items()},
        )

    def run(self, service: str, *program: str) -> None:
        """Run a service until it ends. Raises CalledProcessError."""
        words, environment = self.command(service)
        subprocess.run([*program, *words], env=os.environ | environment, check=True)

    def check(self, service: str) -> bool:
        """Run the health check of a service and report its result."""
        described = services_of(self.file)[service]
        kind, *words = described["healthcheck"]["test"]
        assert kind == "CMD"
        _, environment = self.command(service)
        words = [self._local(service, word) for word in words]
        words[0] = self.programs.get(words[0], words[0])
        ended = subprocess.run(
            words, env=os.environ | environment, capture_output=True, timeout=60, check=False
        )
        return ended.returncode == 0

    def start(self, service: str, *program: str) -> subprocess.Popen[bytes]:
        """Start a service; `program` comes before its command."""
        words, environment = self.command(service)
        words = [*program, *words]
        words[0] = self.programs.get(words[0], words[0])
        with (self.folder / f"{service}.log").open("ab") as log:
            process = subprocess.Popen(
                words, env=os.environ | environment, stdout=log, stderr=log, cwd=self.folder
            )
        self._processes[service] = process
        return process

    def file_of(self, service: str, target: str) -> Path:
        """Return a copy of the file that is mounted at a path, with this machine's addresses."""
        source = self.file.parent / self._mounts(service)[target]
        copy = self.folder / source.name
        copy.write_text(self._local(service, source.read_text()))
        return copy

    def runs(self, service: str) -> bool:
        """Report whether the process of a service runs."""
        return self._processes[service].poll() is None

    def log(self, service: str) -> str:
        """Return what a service has written."""
        return (self.folder / f"{service}.log").read_text()

    def close(self) -> None:
        """Kill what runs."""
        for process in self._processes.values():
            process.kill()
            process.wait()

    def _mounts(self, service: str) -> dict[str, str]:
        volumes = services_of(self.file)[service].get("volumes", [])
        parts = [volume.split(":") for volume in volumes]
        return {part[1]: part[0] for part in parts}

    def _local(self, service: str, text: str) -> str:
        for target, source in self._mounts(service).items():
            if source.startswith("."):
                path = (self.file.parent / source).resolve()
            else:
                path = self.folder / "volumes" / source
                path.mkdir(parents=True, exist_ok=True, mode=0o700)
            text = re.sub(rf"(?<![\w/]){re.escape(target)}(?![\w-])", str(path), text)

        def address(match: re.Match[str]) -> str:
            host = match["host"]
            own = host in ("", "0.0.0.0", "127.0.0.1")
            port = self.port(service if own else host, int(match["port"]))
            return f"127.0.0.1:{port}"

        text = text.replace("--bind-address=0.0.0.0", "--bind-address=127.0.0.1")
        text = _PORT_FLAG.sub(
            lambda match: f"--secure-port={self.port(service, int(match[1]))}", text
        )
        return _ADDRESS.sub(address, text)
