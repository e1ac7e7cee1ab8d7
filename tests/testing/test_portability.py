"""The harness without what Windows does not have: modules, functions, signals, options of sockets.

A process takes them away from its standard library. It stands in for the systems that the tests do
not run on.
"""

from __future__ import annotations

import json
import subprocess
import sys

WITHOUT_POSIX = """
import asyncio, faulthandler, os, signal, socket, sys

for name in ("fcntl", "grp", "pwd", "resource", "syslog", "termios", "tty", "uvloop"):
    sys.modules[name] = None
MISSING = {
    faulthandler: ("register",),
    os: (
        "chown", "fchmod", "fchown", "fork", "getegid", "geteuid", "getgid", "getpgid", "getuid",
        "killpg", "posix_fallocate", "pread", "pwrite", "register_at_fork", "setsid", "statvfs",
    ),
    signal: (
        "SIGALRM", "SIGCHLD", "SIGHUP", "SIGKILL", "SIGQUIT", "SIGUSR1", "SIGUSR2", "alarm",
        "pthread_sigmask", "setitimer",
    ),
    socket: ("SO_REUSEPORT",),
}
for module, names in MISSING.items():
    for name in names:
        delattr(module, name)


def refuse(*arguments):
    raise NotImplementedError


asyncio.SelectorEventLoop.add_signal_handler = refuse
asyncio.SelectorEventLoop.remove_signal_handler = refuse
"""

IMPORTS = """
import importlib
import pkgutil

import kapiserver.cli
import kapiserver.client
import kapiserver.kube_apiserver
import kapiserver.testing

for module in pkgutil.walk_packages(kapiserver.testing.__path__, "kapiserver.testing."):
    importlib.import_module(module.name)
"""

SERVERS = """
import urllib.request

from kapiserver.testing import TestServer


def read(server):
    with urllib.request.urlopen(f"{server.url}/livez", context=server.ssl_context) as response:
        return response.read()


async def on_the_loop_of_the_caller():
    async with TestServer() as server:
        assert await asyncio.to_thread(read, server) == b"ok"


with TestServer() as server:
    assert read(server) == b"ok"
with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
    runner.run(on_the_loop_of_the_caller())
"""

TESTING_SERVER = """
from kapiserver.cli import main

sys.argv = ["kapiserver", "testing-server"]
main()
"""


def _run(source: str) -> str:
    """Run a program without the parts of POSIX, its standard input closed; return its output."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", WITHOUT_POSIX + source],
        input="",
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout


def test_imports() -> None:
    """The programs, the client and each module of the harness can be imported."""
    _run(IMPORTS)


def test_servers() -> None:
    """A server runs on a thread of its own, and on the loop of the caller."""
    _run(SERVERS)


def test_testing_server() -> None:
    """`kapiserver testing-server` starts, and ends when its standard input is closed."""
    assert json.loads(_run(TESTING_SERVER))["url"].startswith("https://127.0.0.1:")
