"""The programs without what Windows does not have: modules, functions, signals, options of sockets.

A process takes them away from its standard library. It stands in for the systems that the tests do
not run on.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

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

import kapiserver

NEEDS_POSIX = (
    "kapiserver.apiserver.serving.process.workers",
    "kapiserver.simulation.streams.terminal",
    "kapiserver.storage.cache.segments",
    "kapiserver.storage.cache.sharing",
)
for module in pkgutil.walk_packages(kapiserver.__path__, "kapiserver."):
    if module.name not in NEEDS_POSIX and not module.name.endswith("__main__"):
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

SERVE = """
import _thread
import threading
import time
from pathlib import Path

from kapiserver.client import Client
from kapiserver.cli import main

folder = Path(sys.argv[1])
kubeconfig = folder / "kubeconfig"
kubeconfig.unlink(missing_ok=True)


async def write():
    async with Client.from_kubeconfig(kubeconfig) as client:
        maps = client.resource("v1", "configmaps", namespace="default")
        await maps.create({"metadata": {"generateName": "start-"}})
        names = [item["metadata"]["name"] for item in (await maps.list_page())["items"]]
    print(sum(name.startswith("start-") for name in names))


def use():
    while not kubeconfig.exists():
        time.sleep(0.01)
    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        runner.run(write())
    _thread.interrupt_main()  # what Ctrl-C does


threading.Thread(target=use, daemon=True).start()
assert main(["serve", "--secure-port=0", "--data-dir", str(folder), *sys.argv[2:]]) == 130
"""

CHECK = """
from kapiserver.cli import main

assert [main(["check", path]) for path in sys.argv[1:]] == [0, 1]
"""

CONTROLLERS = """
import _thread
import contextlib

from kapiserver.extension.controllers.command import run
from kapiserver.testing import TestServer


@contextlib.asynccontextmanager
async def controllers(client, **options):
    print("started")
    asyncio.get_running_loop().call_later(0, _thread.interrupt_main)
    yield


with TestServer() as server, contextlib.suppress(KeyboardInterrupt):
    run(controllers, ["one"], ["--kubeconfig", str(server.kubeconfig)])
"""


def _run(source: str, *arguments: str) -> str:
    """Run a program without the parts of POSIX, its standard input closed; return its output."""
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", WITHOUT_POSIX + source, *arguments],
        input="",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_imports() -> None:
    """Each module can be imported, but for the two that only Linux and macOS use."""
    _run(IMPORTS)


def test_servers() -> None:
    """A server runs on a thread of its own, and on the loop of the caller."""
    _run(SERVERS)


def test_testing_server() -> None:
    """`kapiserver testing-server` starts, and ends when its standard input is closed."""
    assert json.loads(_run(TESTING_SERVER))["url"].startswith("https://127.0.0.1:")


@pytest.mark.slow
@pytest.mark.parametrize(
    "flags", [(), ("--simulate", "--simulate-nodes=1")], ids=["plain", "nodes"]
)
def test_serve(flags: tuple[str, ...], tmp_path: Path) -> None:
    """`kapiserver serve` keeps objects in a file and in a folder whose name has a space. Ctrl-C
    ends it, and the next start finds what was written."""
    folder = tmp_path / "Program Files"
    for starts in (1, 2):
        assert _run(SERVE, str(folder), *flags).splitlines()[-1] == str(starts)


@pytest.mark.slow
def test_check(tmp_path: Path) -> None:
    """`kapiserver check` reads manifests with the line ends of Windows."""
    manifest = "apiVersion: v1\r\nkind: ConfigMap\r\nmetadata:\r\n  name: one\r\n"
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_bytes(manifest.encode())
    bad.write_bytes(manifest.replace("ConfigMap", "Config").encode())
    _run(CHECK, str(good), str(bad))


@pytest.mark.slow
def test_controllers() -> None:
    """A program of controllers starts, and Ctrl-C ends it."""
    assert _run(CONTROLLERS) == "started\n"
