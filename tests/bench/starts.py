"""Starts of test servers and of envtest's programs: `python -m tests.bench.starts`.

Prints medians of CPU time in milliseconds, with the lowest and the highest:

    in one process      the import of `kapiserver.testing`, the first TestServer, the later ones;
                        each until it is ready, then until its controllers have done what a start
                        causes (the first write waits for it), then its stop
    clusters            a cluster on a running TestServer for each test, in place of a server: its
                        creation, its first answer, its deletion
    envtest             the programs `etcd` and `kube-apiserver` that `kapiserver envtest` writes,
                        with the flags of controller-runtime, until /health and /healthz answer;
                        beside them the import alone, and the elapsed time of the pair

CPU time is that of the process, or of the child. Linux only (/proc).
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.serving.tls.credentials import ensure_certificates
from tests.bench.processes import cpu_seconds
from tests.storage.etcd_server import free_port

PROCESSES = 5
LATER_SERVERS = 10
POLL_SECONDS = 0.002
ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}

_IN_ONE_PROCESS = f"""
import json, time
started = time.process_time()
from kapiserver.testing import TestServer
rows = [["import", time.process_time() - started]]
for number in range({LATER_SERVERS + 1}):
    name = "later servers" if number else "first server"
    server = TestServer()
    for part, run in (
        ("ready", server.start),
        ("settled", lambda: server.run(server._start.snapshot())),
        ("stopped", server.stop),
    ):
        started = time.process_time()
        run()
        rows.append([f"{{name}}: {{part}}", time.process_time() - started])
print(json.dumps(rows))
"""
_CLUSTERS = f"""
import json, time
from urllib.request import Request, urlopen
from kapiserver.testing import TestClusters, TestServer
rows = []
def step(name, run):
    started = time.process_time()
    result = run()
    rows.append([name, time.process_time() - started])
    return result
def ask(target):
    headers = {{"Authorization": f"Bearer {{target.token}}"}}
    request = Request(f"{{target.url}}/api/v1/namespaces", headers=headers)
    return urlopen(request, context=context).read()
with TestServer(enable_logical_clusters=True) as server, TestClusters(server) as clusters:
    context = server.ssl_context
    for number in range({LATER_SERVERS + 1}):
        name = "later clusters" if number else "first cluster"
        cluster = step(f"{{name}}: created", clusters.create)
        step(f"{{name}}: first answer", lambda: ask(cluster))
        step(f"{{name}}: deleted", lambda: clusters.delete(cluster.name))
for number in range({LATER_SERVERS}):
    with TestServer() as server:
        context = server.ssl_context
        step("first answer of a later server", lambda: ask(server))
print(json.dumps(rows))
"""


def in_one_process(program: str) -> Iterator[tuple[str, float]]:
    """Yield names and CPU seconds of the parts, of one process."""
    command = [sys.executable, "-c", program]
    output = subprocess.run(command, env=ENVIRONMENT, stdout=subprocess.PIPE, check=True).stdout
    yield from json.loads(output)


def envtest(assets: Path, folder: Path) -> Iterator[tuple[str, float]]:
    """Yield names and seconds of one start of the pair, and of the import of kube-apiserver."""
    certificates = folder / "certificates"
    ensure_certificates(Config(), certificates)
    etcd_port, port = free_port(), free_port()
    context = ssl.create_default_context(cafile=certificates / "ca.crt")
    started = time.perf_counter()
    etcd_flags = (
        f"--data-dir={folder}", f"--listen-client-urls=http://127.0.0.1:{etcd_port}",
        f"--advertise-client-urls=http://127.0.0.1:{etcd_port}", "--unsafe-no-fsync=true",
    )  # fmt: skip
    flags = (
        "--allow-privileged=true", "--authorization-mode=RBAC", "--bind-address=127.0.0.1",
        f"--cert-dir={certificates}", f"--client-ca-file={certificates / 'ca.crt'}",
        "--disable-admission-plugins=ServiceAccount",
        f"--etcd-servers=http://127.0.0.1:{etcd_port}", f"--secure-port={port}",
        f"--service-account-issuer=https://127.0.0.1:{port}/",
        f"--service-account-key-file={certificates / 'ca.key'}",
        f"--service-account-signing-key-file={certificates / 'ca.key'}",
        "--service-cluster-ip-range=10.0.0.0/24",
    )  # fmt: skip
    with _running(assets / "etcd", etcd_flags) as etcd:
        _wait(lambda: http.client.HTTPConnection("127.0.0.1", etcd_port), "/health")
        yield "envtest: etcd", cpu_seconds([etcd.pid])
        with _running(assets / "kube-apiserver", flags) as apiserver:
            _wait(
                lambda: http.client.HTTPSConnection("127.0.0.1", port, context=context), "/healthz"
            )
            yield "envtest: kube-apiserver", cpu_seconds([apiserver.pid])
            yield "envtest: elapsed time of the pair", time.perf_counter() - started


def imports() -> Iterator[tuple[str, float]]:
    """Yield the CPU seconds of Python's own start and of the import of kube-apiserver's program."""
    before = 0.0
    for name, statement in (
        ("of it, start of Python", "pass"),
        ("of it, import", "import kapiserver.kube_apiserver"),
    ):
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", f"{statement}; import os; os._exit(0)"],
            env=ENVIRONMENT,
        )  # fmt: skip
        _, _, usage = os.wait4(process.pid, 0)
        process.returncode = 0
        seconds = usage.ru_utime + usage.ru_stime
        yield f"envtest: {name}", seconds - before
        before = seconds


@contextmanager
def _running(program: Path, flags: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [program, *flags], env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def _wait(connect: Callable[[], http.client.HTTPConnection], path: str) -> None:
    while True:
        connection = connect()
        try:
            connection.request("GET", path)
            if connection.getresponse().status == 200:
                return
        except OSError:
            time.sleep(POLL_SECONDS)
        finally:
            connection.close()


def main() -> None:
    """Print the table."""
    figures: dict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as name:
        assets = Path(name) / "assets"
        subprocess.run([sys.executable, "-m", "kapiserver", "envtest", assets], check=True)
        for number in range(PROCESSES):
            folder = Path(name) / f"run-{number}"
            folder.mkdir()
            programs = map(in_one_process, (_IN_ONE_PROCESS, _CLUSTERS))
            for measure in (*programs, envtest(assets, folder), imports()):
                for row, seconds in measure:
                    figures[row].append(seconds * 1000)
            shutil.rmtree(folder)
    for row, values in figures.items():
        print(
            f"| {row} | {statistics.median(values):.0f} ({min(values):.0f} to {max(values):.0f}) |"
        )


if __name__ == "__main__":
    main()
