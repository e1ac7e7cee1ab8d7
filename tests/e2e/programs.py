"""A real server process, and real client programs."""

import base64
import functools
import http.client
import os
import shutil
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

Kubectl = Callable[..., str]
ROOT = Path(__file__).parent.parent.parent
TOOLS = Path(sys.prefix) / "tools"


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A running `kapiserver serve`, as its kubeconfig describes it."""

    process: subprocess.Popen[bytes]
    kubeconfig: Path
    url: str
    ca_file: Path
    client_cert: Path
    client_key: Path
    folder: Path


def start(
    folder: Path,
    *arguments: str,
    program: Sequence[str] = ("-m", "kapiserver"),
    before_exec: Callable[[], None] | None = None,
) -> Server:
    """Run `kapiserver serve` in a process of its own, and wait until it is ready.

    program         arguments of Python that name the program
    before_exec     called in that process, which need not be able to write: the kubeconfig of an
                    earlier start stays where it is, and the server need only be alive
    """
    health = "/readyz" if before_exec is None else "/livez"
    kubeconfig = folder / "kubeconfig"
    if before_exec is None:
        kubeconfig.unlink(missing_ok=True)
    command = [
        sys.executable, *program, "serve",
        "--bind-address", "127.0.0.1", "--secure-port", "0",
        "--data-dir", str(folder / "data"), "--cert-dir", str(folder / "certificates"),
        "--kubeconfig-out", str(kubeconfig), *arguments,
    ]  # fmt: skip
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=log, stderr=log, preexec_fn=before_exec
        )
    try:
        return _ready(process, kubeconfig, folder, health)
    except BaseException:
        process.kill()
        process.wait()
        raise


def _ready(process: subprocess.Popen[bytes], kubeconfig: Path, folder: Path, health: str) -> Server:
    """Return the server when it has written its kubeconfig and is healthy."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        if kubeconfig.exists():
            running_server = describe(process, kubeconfig, folder)
            if _is_healthy(running_server, health):
                return running_server
        time.sleep(0.01)
    raise AssertionError(f"the server did not start:\n{(folder / 'log').read_text()}")


def describe(process: subprocess.Popen[bytes], kubeconfig: Path, folder: Path) -> Server:
    """Return the server that a kubeconfig describes, with its certificates in files of a folder."""
    described = yaml.safe_load(kubeconfig.read_text())
    cluster = described["clusters"][0]["cluster"]
    user = described["users"][0]["user"]
    files = {
        "ca.pem": cluster["certificate-authority-data"],
        "client.pem": user["client-certificate-data"],
        "client.key": user["client-key-data"],
    }
    for name, encoded in files.items():
        data, path = base64.b64decode(encoded), folder / name
        if not path.exists() or path.read_bytes() != data:  # the disk may be full
            path.write_bytes(data)
    return Server(
        process=process,
        kubeconfig=kubeconfig,
        url=cluster["server"],
        ca_file=folder / "ca.pem",
        client_cert=folder / "client.pem",
        client_key=folder / "client.key",
        folder=folder,
    )


def _is_healthy(server: Server, path: str) -> bool:
    host = server.url.removeprefix("https://")
    context = ssl.create_default_context(cafile=str(server.ca_file))
    connection = http.client.HTTPSConnection(host, timeout=5, context=context)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def wait_for_log(server: Server, text: str, *, times: int = 1) -> str:
    """Return the log when it has this text so many times."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        log = (server.folder / "log").read_text()
        if log.count(text) >= times:
            return log
        time.sleep(0.01)
    raise AssertionError(f"{text!r} is not in the log {times} times:\n{log}")


def stop(server: Server) -> int:
    """Send SIGTERM, as an init system does; return the exit code."""
    server.process.send_signal(signal.SIGTERM)
    return server.process.wait(60)


def generations(name: str) -> list[Path]:
    """The newest and the oldest kubectl (or helm), or the one on PATH."""
    fetched = [path for path in (TOOLS / name, TOOLS / "oldest" / name) if path.exists()]
    on_path = shutil.which(name)
    return fetched or ([Path(on_path)] if on_path else [])


def kubectls() -> list[Path]:
    """Every kubectl, the newest first."""
    return generations("kubectl")


def run(
    program: Path,
    server: Server,
    *arguments: str,
    stdin: str = "",
    fails: bool = False,
    **environment: str,
) -> str:
    """Run kubectl (or helm) and return its output; assert that it succeeds, or fails."""
    own = {
        "KUBECONFIG": str(server.kubeconfig),
        "HOME": str(server.folder),
        "GOGC": "off",  # it ends soon; its garbage collections would take a fifth of its time
    }
    process = subprocess.run(
        [program, *arguments],
        env=os.environ | own | environment,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    transcript = f"{' '.join(arguments)}\n{process.stdout}{process.stderr}"
    assert (process.returncode != 0) is fails, transcript
    return process.stdout + process.stderr if fails else process.stdout


def kubectl_of(server: Server, program: Path | None = None) -> Kubectl:
    """Return a function that runs a kubectl, the newest one by default, with a server; it takes the
    arguments and options of `run`."""
    return functools.partial(run, program or kubectls()[0], server)
