"""Checks of manifests: `python -m tests.bench.checking [OBJECTS]`.

Checks so many objects (1,000 by default) in as many files: Deployments, Services, ConfigMaps and
Ingresses, without findings. Prints the CPU time of the command `kapiserver check` and its greatest
memory, and the CPU time for four objects, which is that of a start: median, lowest and highest of
some processes, which run in turns.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import yaml

DEFAULT_OBJECTS = 1000
PROCESSES = 5
ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}


def objects(number: int) -> Sequence[dict[str, object]]:
    """Return an application: four objects that belong together."""
    name = f"web-{number}"
    labels = {"app": name}
    metadata = {"name": name, "labels": labels}
    container = {
        "name": "web",
        "image": "nginx:1.27",
        "ports": [{"name": "http", "containerPort": 80}],
        "envFrom": [{"configMapRef": {"name": name}}],
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
    }
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    backend = {"service": {"name": name, "port": {"number": 80}}}
    path = {"path": "/", "pathType": "Prefix", "backend": backend}
    rule = {"host": f"{name}.example.com", "http": {"paths": [path]}}
    specs = {
        "Deployment": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template},
        "Service": {"selector": labels, "ports": [{"port": 80, "targetPort": "http"}]},
        "Ingress": {"rules": [rule]},
    }
    versions = {"Deployment": "apps/v1", "Service": "v1", "Ingress": "networking.k8s.io/v1"}
    return [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"level": "info"}},
        *(
            {"apiVersion": versions[kind], "kind": kind, "metadata": metadata, "spec": spec}
            for kind, spec in specs.items()
        ),
    ]


def write_files(folder: Path, count: int) -> None:
    """Write so many objects, each into a file of its own."""
    trees = [tree for number in range(-(-count // 4)) for tree in objects(number)]
    for number, tree in enumerate(trees[:count]):
        (folder / f"{number}.yaml").write_text(yaml.safe_dump(tree))


def check(folder: Path, count: int) -> tuple[float, int]:
    """Check a folder; return the CPU time in seconds and the greatest memory in KiB."""
    command = [sys.executable, "-m", "kapiserver", "check", str(folder)]
    process = subprocess.Popen(
        command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None and process.stderr is not None
    output, errors = process.stdout.read(), process.stderr.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert (process.returncode, output) == (0, b""), output
    assert f"{count} objects: 0 errors, 0 warnings" in errors, errors
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_OBJECTS
    with tempfile.TemporaryDirectory() as many, tempfile.TemporaryDirectory() as few:
        folders = {count: Path(many), 4: Path(few)}
        for number, folder in folders.items():
            write_files(folder, number)
        runs: dict[int, list[tuple[float, int]]] = {number: [] for number in folders}
        for _ in range(PROCESSES):
            for number, folder in folders.items():
                runs[number].append(check(folder, number))
    for number, results in runs.items():
        seconds = sorted(seconds for seconds, _ in results)
        memory = max(size for _, size in results) / 1024
        print(
            f"{number} objects: {statistics.median(seconds):.2f} s "
            f"({seconds[0]:.2f} to {seconds[-1]:.2f}), {memory:.0f} MiB"
        )


if __name__ == "__main__":
    main()
